"""Runs probes, and finds out from outside whether they reached their goals.

The fixture sets out canaries: a secret file, a victim file, listening sockets, a process of the same user, another
program in another worker, a secret in the environment. A probe reached its goal when it says so, when a canary was
touched, or when the trainer got something that it must never get (an overlong wait, a reward out of bounds).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from spade_gym.errors import ProgramFault
from spade_gym.programs.program import Manifest, Program
from spade_gym.sandbox.base import Isolation, Limits
from spade_gym.sandbox.probe import Probe, source_of
from spade_gym.sandbox.session import Session
from spade_gym.sandbox.zygotes import DeathWatch
from spade_gym.types import Transition

_SECRET_VARIABLE = "SPADE_GYM_PROBE_SECRET"
_VICTIM_TEXT = "do not touch"
_LIMITS = Limits(load_seconds=5.0, memory_bytes=512 << 20)
#: How much longer than its deadline a step may keep the trainer waiting: killing, a new worker, a replay.
_GRACE_SECONDS = 3.0

#: A process of the user that ends with this one.
_STRANGER = [sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()"]
_SIBLING = """
import posix
SIBLING_WORD = "intact"

class SiblingEnv:
    def reset(self, seed=None):
        return str(posix.getpid()), {}

    def step(self, action):
        return SIBLING_WORD, 0.0, False, False, {}
"""


@dataclass(frozen=True, slots=True)
class Attempt:
    """What came of a probe.

    Attributes:
        reached: How it reached its goal; ``""`` when it did not.
        ending: ``answer``, or the reason of the fault.
        detail: What the program answered, or the fault's message.
    """

    reached: str
    ending: str
    detail: str

    @property
    def outcome(self) -> str:
        """``open`` when the goal was reached, else ``blocked``."""
        return "open" if self.reached else "blocked"


class Fixture:
    """The canaries for probes at one level; a context manager.

    Args:
        level: The isolation under test.
    """

    def __init__(self, level: Isolation) -> None:
        self.level = level
        self._stack = contextlib.ExitStack()
        self._token = f"spade_probe_{secrets.token_hex(8)}"
        self._reached = f"REACHED-{secrets.token_hex(8)}-"

    def __enter__(self) -> Fixture:
        with contextlib.ExitStack() as stack:
            self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spade-gym-probes-")))
            self._secret = secrets.token_hex(8)
            os.environ[_SECRET_VARIABLE] = self._secret
            stack.callback(os.environ.pop, _SECRET_VARIABLE, None)
            (self._folder / "secret").write_text("CANARY")
            self._listen(stack)
            self._stranger: subprocess.Popen[bytes] | None = None
            self._sibling: Session | None = None
            stack.callback(self._dismiss)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _listen(self, stack: contextlib.ExitStack) -> None:
        self._tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self._udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self._udp.bind(("127.0.0.1", 0))
        self._unix = stack.enter_context(socket.socket(socket.AF_UNIX))
        self._unix.bind(str(self._folder / "service"))
        self._unix.listen()
        self._abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
        with contextlib.suppress(OSError):  # only Linux has names without a path
            self._abstract.bind("\0" + self._token)
            self._abstract.listen()

    # ---- canaries

    def _set_out(self) -> None:
        """Put everything in its place again."""
        for path in self._folder.iterdir():
            if path.name not in ("secret", "service"):
                path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        (self._folder / "victim").write_text(_VICTIM_TEXT)
        (self._folder / "victim").chmod(0o600)
        if self._stranger is None or self._stranger.poll() is not None:
            self._dismiss_stranger()
            self._stranger = subprocess.Popen(_STRANGER, stdin=subprocess.PIPE, start_new_session=True)
        if self._sibling is None:
            self._sibling = Session(_program(_SIBLING, "SiblingEnv"), isolation=self.level, limits=_LIMITS)
            slot = self._sibling.open()
            self._sibling_pid = int(self._sibling.reset(slot, 0).observation)
            self._watch: DeathWatch | None = None
            if self.level is not Isolation.L0:
                self._watch = self._sibling.death_watch()

    def _dismiss(self) -> None:
        self._dismiss_stranger()
        self._dismiss_sibling()

    def _dismiss_stranger(self) -> None:
        if self._stranger is not None:
            self._stranger.kill()
            self._stranger.communicate()
        self._stranger = None

    def _dismiss_sibling(self) -> None:
        if self._sibling is not None:
            if self._watch is not None:
                self._watch.close()
            self._sibling.close()
        self._sibling = None

    def _names(self) -> dict[str, object]:
        return {
            "REACHED": self._reached,
            "TOKEN": self._token,
            "SECRET": str(self._folder / "secret"),
            "SECRET_REVERSED": list(reversed(self._secret)),
            "VICTIM": str(self._folder / "victim"),
            "FOLDER": str(self._folder),
            "HOME": os.path.expanduser("~"),
            "TEMPORARY": tempfile.gettempdir(),
            "LIBRARY": os.path.realpath(sysconfig.get_paths()["stdlib"]),
            "PACKAGE": __file__,
            "TRAINER": os.getpid(),
            "STRANGER": self._stranger.pid if self._stranger is not None else 0,
            "SIBLING": self._sibling_pid,
            "TCP_PORT": self._tcp.getsockname()[1],
            "UDP_PORT": self._udp.getsockname()[1],
            "UNIX_PATH": self._unix.getsockname(),
            "ABSTRACT": "\0" + self._token,
        }

    def _touched(self) -> Iterator[str]:
        """Canaries that were touched."""
        victim = self._folder / "victim"
        if not victim.is_file() or victim.read_text() != _VICTIM_TEXT or victim.stat().st_mode & 0o7777 != 0o600:
            yield "it changed a file of the user"
        yield from self._files_left()
        ready, _, _ = select.select([self._tcp, self._udp, self._unix, self._abstract], [], [], 0)
        for listener in ready:
            if listener is self._udp:
                self._udp.recv(100)
            else:
                listener.accept()[0].close()
            yield "it reached a socket"
        if self._stranger is not None and self._stranger.poll() is not None:
            yield "it killed a process of the user"
        yield from self._sibling_harmed()

    def _files_left(self) -> Iterator[str]:
        names = self._names()
        for key in ("FOLDER", "TEMPORARY", "HOME", "LIBRARY"):
            yield from self._file_left(Path(str(names[key]), self._token))
        yield from self._file_left(Path("/dev/shm", self._token))

    def _file_left(self, path: Path) -> Iterator[str]:
        if path.is_symlink() or path.exists():
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
            yield f"it created {path.parent}/…"

    def _sibling_harmed(self) -> Iterator[str]:
        assert self._sibling is not None
        if self._watch is not None and self._watch.wait(0.0):
            self._dismiss_sibling()
            yield "it killed another program's worker"
            return
        observation = self._sibling.step(0, "x").observation
        if observation != "intact":
            yield f"another program answered {observation!r}"

    # ---- attempts

    def attempt(self, probe: Probe) -> Attempt:
        """Run a probe in a worker of its own."""
        with warnings.catch_warnings():
            if self.level is Isolation.L0:  # the mess that a program leaves is then in this process
                warnings.simplefilter("ignore", ResourceWarning)
            return self._attempt(probe)

    def _attempt(self, probe: Probe) -> Attempt:
        self._set_out()
        limits = Limits(
            load_seconds=_LIMITS.load_seconds, memory_bytes=_LIMITS.memory_bytes, step_seconds=probe.step_seconds
        )
        program = _program(source_of(probe, self._names()), "ProbeEnv")
        with Session(program, isolation=self.level, limits=limits) as session:
            slot, neighbour = session.open(), session.open()
            session.reset_many([(slot, 0), (neighbour, 0)])
            session.step(neighbour, "calm")
            results: list[Transition | ProgramFault] = []
            start = time.monotonic()
            for action in ("attack", "again") if probe.twice else ("attack",):
                results.append(session.step_many([(slot, action)])[0])
                time.sleep(0.05 if probe.twice else 0.0)
            waited = time.monotonic() - start
            reached = [reason for result in results for reason in self._gained(result)]
            if waited > len(results) * (limits.step_seconds + _GRACE_SECONDS):
                reached.append(f"it kept the trainer waiting for {waited:.1f} s")
            if not probe.own_goal:
                reached += _disturbed(session.step_many([(neighbour, "calm")])[0])
        reached += self._touched()
        last = results[-1]
        if isinstance(last, ProgramFault):
            return Attempt("; ".join(reached), last.reason, str(last).replace(self._reached, "")[:200])
        return Attempt("; ".join(reached), "answer", last.observation.replace(self._reached, "")[:200])

    def _gained(self, result: Transition | ProgramFault) -> Iterator[str]:
        """What the trainer got that it must not get."""
        if isinstance(result, ProgramFault):
            return
        if result.observation.startswith(self._reached):
            yield "it says so"
        if not -_LIMITS.abs_reward <= result.reward <= _LIMITS.abs_reward:
            yield f"it got a reward of {result.reward!r}"
        if len(result.observation) > _LIMITS.text_chars:
            yield f"it passed {len(result.observation)} characters"


def _disturbed(result: Transition | ProgramFault) -> list[str]:
    """Whether another instance of the same program lost its state."""
    answer = str(result) if isinstance(result, ProgramFault) else result.observation
    return [] if answer == "calm 2" else [f"another instance of the program answered {answer!r}"]


def _program(source: str, class_name: str) -> Program:
    return Program(source, Manifest(name="Probe", setting="multi_turn", class_name=class_name))
