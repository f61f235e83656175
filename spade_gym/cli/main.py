"""The command ``spade-gym``: finds the command's module, runs it, and turns errors into one line.

A command is a module of this package with ``add_arguments(parser)`` and ``run(args) -> int``. It is imported
only when it is used, so ``spade-gym --help`` stays quick.

Exit status: what the command says; 2 for usage errors and errors with a message; 130 after Ctrl-C; 141 when
the reader of the output went away.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from types import FrameType, ModuleType

from spade_gym import ctrl_c
from spade_gym.cli.terminal import visible
from spade_gym.ctrl_c import INTERRUPTED
from spade_gym.errors import SpadeError

#: Every command: its module and one line for ``--help``.
COMMANDS: dict[str, tuple[str, str]] = {
    "check": ("spade_gym.cli.check", "check programs that a language model wrote, with reasons"),
    "list": ("spade_gym.cli.list", "list the bundled programs"),
    "show": ("spade_gym.cli.show", "show one program: rules, commands, origin, source"),
    "play": ("spade_gym.cli.play", "play a program yourself in the terminal"),
    "pool": ("spade_gym.cli.pool", "keep programs: add, list, show, import, export, verify"),
    "doctor": ("spade_gym.cli.doctor", "show which isolation works on this machine, found by attacking it"),
    "train": ("spade_gym.cli.train", "train an agent on a program"),
    "selfplay": ("spade_gym.cli.selfplay", "design, play, score, remember: the self-play cycle"),
    "eval": ("spade_gym.cli.eval", "evaluate a model on tasks that it was not trained on, beside a base"),
    "run": ("spade_gym.cli.run", "look inside a self-play run: show, plays, program, diff"),
    "curriculum": ("spade_gym.cli.curriculum", "look at what a curriculum did: presets, plot"),
    "bench": ("spade_gym.cli.bench", "measure speed on this machine"),
    "try": ("spade_gym.cli.try_reply", "take one reply all the way: check it, isolate it, play it"),
    "demo": ("spade_gym.cli.demo", "a whole self-play run with a small model, in minutes on a CPU"),
}

_BROKEN_PIPE, _ERROR = 141, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    Args:
        argv: The arguments after ``spade-gym``; ``None`` takes the process's own.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    _open_closed_streams()
    _keep_output_alive()
    with _interrupts() as interrupted:
        return _run_safely(arguments, interrupted)


def _run_safely(arguments: list[str], interrupted: threading.Event) -> int:
    """Run one command; an error after Ctrl-C is its consequence, whatever a library made of it."""
    debug = "--debug" in arguments
    try:
        status = _run(arguments)
        sys.stdout.flush()
        return status
    except SystemExit as stop:  # argparse: 0 after --help, 2 after a usage error
        return stop.code if isinstance(stop.code, int) else _ERROR
    except BrokenPipeError:
        _discard_output()
        return INTERRUPTED if interrupted.is_set() else _BROKEN_PIPE
    except BaseException as error:
        known = isinstance(error, SpadeError | OSError)
        if debug or not (known or interrupted.is_set() or isinstance(error, KeyboardInterrupt)):
            raise
        if interrupted.is_set() or isinstance(error, KeyboardInterrupt):
            print("\nspade-gym: interrupted", file=sys.stderr)
            return INTERRUPTED
        print(f"spade-gym: {visible(str(error))}", file=sys.stderr)
        return _ERROR


def build_parser(command: str | None) -> argparse.ArgumentParser:
    """Build the parser, with the arguments of one command only.

    Args:
        command: The command that will be run; the modules of the others are not imported.
    """
    parser = argparse.ArgumentParser(
        prog="spade-gym",
        description="Programs that a language model wrote, as isolated and deterministic Gymnasium environments.",
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, (module, summary) in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        if name == command:
            subparser.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
            _module(module).add_arguments(subparser)
    return parser


def _run(arguments: list[str]) -> int:
    command = next((argument for argument in arguments if not argument.startswith("-")), None)
    if command is not None and command not in COMMANDS:
        near = difflib.get_close_matches(command, COMMANDS, n=1)
        ask = f" Did you mean {near[0]}?" if near else ""
        raise SpadeError(f"there is no command {command!r}; the commands are {', '.join(COMMANDS)}.{ask}")
    parser = build_parser(command)
    args = parser.parse_args(arguments)
    if args.version:
        from importlib.metadata import version

        print(f"spade-gym {version('spade-gym')}")
        return 0
    if command is None:
        parser.print_help()
        return _ERROR
    return int(_module(COMMANDS[command][0]).run(args))


def _module(name: str) -> ModuleType:
    return importlib.import_module(name)


def _open_closed_streams() -> None:
    """Put the null device in the place of standard streams that the caller closed (``>&-``)."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - for the whole process


@contextlib.contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """Note Ctrl-C beside raising ``KeyboardInterrupt``: some libraries make another error of it."""
    noted = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        noted.set()
        raise KeyboardInterrupt

    old = signal.getsignal(signal.SIGINT)
    ours = (signal.default_int_handler, ctrl_c.exit_at_once)
    if threading.current_thread() is not threading.main_thread() or old not in ours:
        yield noted
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, old)


def _keep_output_alive() -> None:
    """Print what the terminal's encoding lacks as an escape, rather than fail in the middle of a report."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def _discard_output() -> None:
    """Send what is still buffered nowhere, so that the interpreter does not complain at its exit."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
