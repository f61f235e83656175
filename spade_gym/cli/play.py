"""``spade-gym play``: a person plays a program in the terminal."""

from __future__ import annotations

import argparse
import contextlib
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spade_gym.cli.judge import add_isolation_argument
from spade_gym.cli.play_episode import Episode, introduce
from spade_gym.cli.terminal import visible, width
from spade_gym.cli.transcript import Transcript, default_path
from spade_gym.cli.which_program import Found, add_pool_argument, find
from spade_gym.errors import SpadeError

_INTERRUPTED = 130


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``play``."""
    parser.add_argument("name", metavar="NAME", help="a name, a Gymnasium id, 8 or more digits of a digest, or a file")
    parser.add_argument("--seed", type=_seed, default=None, metavar="N", help="which instance (default: by chance)")
    parser.add_argument("--hint", action="store_true", help="show the hint with the first observation")
    parser.add_argument("--transcript", type=Path, metavar="FILE", help="where the play is recorded, as JSON lines")
    add_pool_argument(parser)
    add_isolation_argument(parser)


def run(args: argparse.Namespace, *, make: Callable[[Found, str | None], Any] | None = None) -> int:
    """Play one episode; Ctrl-C, the end of the input and ``:quit`` end it and keep the transcript.

    Args:
        args: The parsed arguments.
        make: Makes the environment; by default ``gymnasium.make``.
    """
    found = find(args.name, args.pool)
    if args.hint and not found.program.manifest.hint:
        raise SpadeError(f"{found.program.name} has no hint; play it without --hint")
    seed = secrets.randbelow(1 << 31) if args.seed is None else args.seed
    path = args.transcript if args.transcript is not None else default_path(found.program.name, seed)
    with Transcript(path, on_first_step=args.transcript is None) as transcript:
        transcript.write("start", name=found.program.name, digest=found.program.digest, seed=seed, hint=args.hint)
        env = (make or make_env)(found, args.isolation)
        episode = Episode(env, found.program, ask=ask, show=print, transcript=transcript, columns=width())
        print(introduce(found.program, seed=seed, columns=width()))
        try:
            episode.play(seed=seed, hint=args.hint)
        finally:
            env.close()
            record = f"transcript: {visible(str(path))}" if transcript.is_written else "nothing to record"
            print(f"\n{episode.outcome} after {episode.turn} turns, return {episode.score:g}; {record}")
    if episode.outcome == "interrupted":
        return _INTERRUPTED
    return 1 if episode.outcome == "faulty" else 0


def make_env(found: Found, isolation: str | None) -> Any:
    """Make the environment of a bundled program by its id, of any other from its source."""
    import gymnasium

    import spade_gym  # noqa: F401 - registers the ids

    chosen: dict[str, Any] = {} if isolation is None else {"isolation": isolation}
    if found.gym_id:
        return gymnasium.make(found.gym_id, disable_env_checker=True, **chosen)
    from spade_gym.envs.program_env import ProgramEnv

    return ProgramEnv(found.program, **chosen)


def ask(prompt: str) -> str | None:
    """Read one line from the terminal or a pipe; what a pipe says is shown, so that the output reads as a play."""
    with contextlib.suppress(AttributeError, ValueError):
        sys.stdin.reconfigure(errors="replace")  # type: ignore[union-attr]
    if not sys.stdin.isatty():
        print(prompt, end="", flush=True)
        line = sys.stdin.readline()
        print(visible(line.rstrip("\n"), newlines=False), flush=True)
        return line.rstrip("\n") if line else None
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - gives input() line editing and history
    try:
        return input(prompt)
    except EOFError:
        print()
        return None


def _seed(text: str) -> int:
    try:
        seed = int(text)
    except ValueError:
        seed = -1
    if not 0 <= seed < 1 << 63:
        raise argparse.ArgumentTypeError(f"must be an integer from 0 to 2**63 - 1, got {text!r}")
    return seed
