"""The link to the one worker of a session: started when needed, asked, killed."""

from __future__ import annotations

import functools
import os
import secrets
from dataclasses import asdict
from typing import Annotated, Any, NamedTuple

import msgspec

from spade_gym.errors import ProgramCrash, ProgramError, ProgramFault, SandboxError
from spade_gym.programs.chance import may_draw_globally
from spade_gym.programs.contract import required_imports
from spade_gym.programs.program import Program
from spade_gym.sandbox.adapt import ADAPTERS
from spade_gym.sandbox.answers import Access, LoadReport
from spade_gym.sandbox.base import Isolation, Limits, World
from spade_gym.sandbox.channel import Channel, LocalChannel, WorkerChannel
from spade_gym.sandbox.preload import kind_for
from spade_gym.sandbox.wire import INFO_BYTES, INFO_NODES, VALUE_BYTES, VALUE_NODES, Rows, Value, plain_of
from spade_gym.sandbox.zygotes import DeathWatch, WorkerProcess, resolve_level, zygote_pool

_getpid = os.getpid
_Word = Annotated[str, msgspec.Meta(max_length=1000)]


class _Facts(msgspec.Struct):
    """What ``Harness.load`` returns."""

    class_name: _Word
    has_solution: bool
    max_turns: int | None
    base: _Word


class _Nature(NamedTuple):
    kind: str
    draws_globally: bool


@functools.lru_cache(maxsize=512)
def _nature(source: str) -> _Nature:
    """What the source tells before it runs: which zygote it needs, and whether it uses the global generators."""
    return _Nature(kind_for(required_imports(source)), may_draw_globally(source))


_ACCESSES = list[tuple[str, str, int, int]]
_MALFORMED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class Link:
    """The worker of one program.

    Args:
        program: What to run.
        isolation: The level asked for; ``None`` for the default.
        limits: What the program may use.
        world: Chance and time.
        arguments: Keyword arguments of the program's constructor.

    Attributes:
        generation: How many workers there were.
        key: A random number of the present worker, by which its save points are known again.
    """

    def __init__(
        self, program: Program, isolation: Isolation | None, limits: Limits, world: World, arguments: dict[str, Any]
    ) -> None:
        self._program = program
        self._isolation = isolation
        self._limits = limits
        self._world = world
        self._arguments = arguments
        self._channel: Channel | None = None
        self._prepared: WorkerChannel | None = None
        self._summoned: WorkerChannel | None = None
        self._owner = _getpid()
        self._facts: _Facts | None = None
        self._adapters: dict[str, None] = dict.fromkeys(program.manifest.adapters)
        self._accesses_of_failed_load: list[Access] = []
        self.generation = 0
        self.key = 0

    @property
    def level(self) -> Isolation:
        """The isolation in use."""
        return resolve_level(self._isolation)

    @property
    def report(self) -> LoadReport:
        """What the program said when it was loaded last."""
        assert self._facts is not None
        facts = self._facts
        return LoadReport(
            class_name=facts.class_name,
            adapters=tuple(self._adapters),
            has_solution=facts.has_solution,
            max_turns=facts.max_turns,
            is_tool_use=facts.base == "tool_use",
            base=facts.base,
        )

    def note(self, adapters: list[str]) -> None:
        """Remember adapters that came into use; a forged name is none."""
        self._adapters.update(dict.fromkeys(name for name in adapters if name in ADAPTERS))

    # ---- starting and ending

    @property
    def is_up(self) -> bool:
        """Whether there is a worker of this process; a forked child of the trainer has none at first."""
        return self._channel is not None and self._owner == _getpid()

    def start(self) -> Channel:
        """Return the channel to the worker; start one and load the program where there is none.

        Raises:
            ProgramFault: The program cannot be loaded.
            SandboxError: No worker can be started.
        """
        if self._channel is not None and self._owner == _getpid():
            return self._channel
        if self._owner != _getpid():
            self.close()  # which lets go of the parent's worker without killing it
            self._owner = _getpid()
        summoned, self._summoned = self._summoned, None
        channel = summoned or self._new_channel()
        try:
            try:
                self._load(channel, is_sent=summoned is not None)
            except ProgramCrash as fault:
                if fault.reason != "crash":
                    raise
                channel.close()  # perhaps not the program's doing: its zygote may have died
                channel = self._new_channel()
                self._load(channel)
        except BaseException:
            channel.close()
            raise
        self.generation += 1
        self.key = secrets.randbits(63)
        self._channel = channel  # last: whoever sees it, after an interrupt too, sees its generation
        return channel

    def _load(self, channel: Channel, *, is_sent: bool = False) -> None:
        if is_sent:
            assert isinstance(channel, WorkerChannel)
            channel.await_ready()
        else:
            self._send_load(channel)
        try:
            self._facts = self._answer(channel, _Facts)
        except ProgramError:
            if self._world.audit:  # what it tried while loading is worth knowing, though it failed
                self._accesses_of_failed_load = _accesses(self._put(channel, _ACCESSES, "accesses"))
            raise

    def _send_load(self, channel: Channel) -> None:
        manifest = self._program.manifest
        source, limits = self._program.source, self._limits
        arguments = (
            source, manifest.class_name, self._arguments, asdict(self._world), limits.text_chars,
            _nature(source).draws_globally,
        )  # fmt: skip
        channel.send("load", arguments, limits.load_seconds)

    def summon(self) -> None:
        """Have a worker begin to load the program where there is none, without waiting for it."""
        if self._owner != _getpid() or any((self._channel, self._prepared, self._summoned)):
            return
        if self.level is Isolation.L0:
            return
        channel = WorkerChannel(self._forked(), self._limits.text_chars)
        try:
            self._send_load(channel)
        except ProgramFault:  # it died at once: ``start`` tries again, and says what is wrong
            channel.close()
            return
        except BaseException:
            channel.close()
            raise
        self._summoned = channel

    def prepare(self) -> None:
        """Have a locked-in, warm worker ready, so that the first reset need not wait for one."""
        if self._owner != _getpid() or self._channel is not None or self._prepared is not None:
            return
        if self.level is not Isolation.L0:
            self._prepared = WorkerChannel(self._fork(), self._limits.text_chars)
            self._put(self._prepared, None, "warm_up")

    def _new_channel(self) -> Channel:
        if self.level is Isolation.L0:
            if self._world.audit:
                raise SandboxError("attempts can be recorded only in a worker of its own (L1 or stronger), not at L0")
            return LocalChannel()
        channel, self._prepared = self._prepared, None
        return channel or WorkerChannel(self._fork(), self._limits.text_chars)

    def _forked(self) -> WorkerProcess:
        kind = _nature(self._program.source).kind
        return zygote_pool().fork(self.level, kind, self._world.hash_seed, self._limits)

    def _fork(self) -> WorkerProcess:
        process = self._forked()
        try:
            process.await_ready()
        except BaseException:
            process.kill()
            raise
        return process

    def death_watch(self) -> DeathWatch:
        """Watch for the death of the present worker.

        Raises:
            SandboxError: There is no worker process (L0), or this system has no process handles.
        """
        channel = self.start()
        if not isinstance(channel, WorkerChannel):
            raise SandboxError("at L0 there is no process to watch")
        return channel.process.watch()

    def nudge(self) -> None:
        """Wake the worker, if there is one: a request is about to follow."""
        if self._channel is not None and self._owner == _getpid():
            self._channel.nudge()

    def kill(self) -> None:
        """End the worker."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def close(self) -> None:
        """End the worker, and one that was prepared or summoned."""
        self.kill()
        if self._summoned is not None:
            self._summoned.close()
            self._summoned = None
        if self._prepared is not None:
            self._prepared.close()
            self._prepared = None

    # ---- questions

    def ask(self, kind: Any, operation: str, *arguments: Any) -> Any:
        """Ask the worker, starting one where needed.

        Args:
            kind: Type of the answer; a worker that answers otherwise is killed.
            operation: Name of a method of ``Harness``.
            arguments: Its arguments.

        Raises:
            ProgramError: The program raised.
            ProgramFault: It did not answer, or not as an honest worker would; the worker is gone.
        """
        channel = self.start()
        try:
            return self._put(channel, kind, operation, *arguments)
        except ProgramError:
            raise
        except BaseException:  # an interrupted request too: its answer must not be taken for another's
            self.kill()
            raise

    def _put(self, channel: Channel, kind: Any, operation: str, *arguments: Any) -> Any:
        channel.send(operation, arguments, self._limits.load_seconds)
        return self._answer(channel, kind)

    def _answer(self, channel: Channel, kind: Any) -> Any:
        reply = channel.receive()
        if not isinstance(reply, Value):
            raise ProgramCrash("the program's process sent an answer of another kind", reason="protocol")
        self.note(reply.adapters)
        try:
            value = plain_of(reply.value, VALUE_BYTES, VALUE_NODES)
            if not reply.failed:
                return msgspec.convert(value, kind)
        except _MALFORMED as error:
            raise ProgramCrash(f"the program's process forged an answer: {error}", reason="protocol") from None
        raise error_of(str(value))

    def accesses(self) -> list[Access]:
        """What the program's own code tried to reach so far, or while it failed to load."""
        try:
            self.start()
        except ProgramError:
            return self._accesses_of_failed_load
        return _accesses(self.ask(_ACCESSES, "accesses"))


def _accesses(rows: list[tuple[str, str, int, int]]) -> list[Access]:
    return [Access(*row) for row in rows]


def error_of(text: str) -> ProgramError:
    """The fault for an error that a worker described."""
    return ProgramError(text[:1000], reason="memory" if text.startswith("MemoryError") else "error")


def rows_of(channel: Channel, num_left: int) -> tuple[Rows, dict[int, dict[str, Any]]]:
    """Receive one frame of results.

    Args:
        channel: Where a request is under way.
        num_left: How many results are still due.

    Returns:
        The frame, and its infos decoded.

    Raises:
        ProgramFault: The worker died, is late, or sent something that an honest one would not.
    """
    rows = channel.receive()
    if not isinstance(rows, Rows):
        raise ProgramCrash("the program's process sent an answer of another kind", reason="protocol")
    count = len(rows.flags)
    if not 0 < count <= num_left or not count == len(rows.rewards) == len(rows.observations):
        raise ProgramCrash("the program's process sent no, too many or uneven results", reason="protocol")
    if rows.last and count < num_left:
        raise ProgramCrash("the program's process sent too few results", reason="protocol")
    return rows, _infos(rows.infos, count) if rows.infos else {}


def _infos(encoded: dict[int, msgspec.Raw], count: int) -> dict[int, dict[str, Any]]:
    infos = {}
    try:
        for position, raw in encoded.items():
            info = infos[position] = plain_of(raw, INFO_BYTES, INFO_NODES)
            if type(info) is not dict or not 0 <= position < count:
                raise msgspec.ValidationError("an info of nothing")
    except _MALFORMED as error:
        raise ProgramCrash(f"the program's process forged an info: {error}", reason="protocol") from None
    return infos
