"""A session: one program in one worker, many instances of it, and what to do when the worker dies.

Every instance remembers its seed and actions. When a step hangs or crashes, its worker is killed and a new one
is started; the other instances are replayed there, so they lose nothing, and the steps that were under way with
the faulty one are played one at a time, so that only the culprit is blamed.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import Any, NamedTuple

from spade_gym.errors import ProgramCrash, ProgramError, ProgramFault, SandboxError
from spade_gym.programs.chance import may_draw_globally
from spade_gym.programs.contract import required_imports
from spade_gym.programs.program import Program
from spade_gym.sandbox.base import Isolation, Limits, World
from spade_gym.sandbox.channel import Channel, LocalChannel, WorkerChannel
from spade_gym.sandbox.preload import kind_for
from spade_gym.sandbox.wire import FAILED, TERMINATED, TRUNCATED, Reply, Rows, Value
from spade_gym.sandbox.worker import FLUSH_SECONDS
from spade_gym.sandbox.zygotes import DeathWatch, WorkerProcess, resolve_level, zygote_pool
from spade_gym.types import Transition


class Batch(NamedTuple):
    """Results of ``begin``, by column; positions are those of its items.

    Attributes:
        observations: Texts.
        rewards: Finite numbers.
        flags: ``TERMINATED`` and ``TRUNCATED`` of ``wire.py``, added up.
        infos: Non-empty infos, by position.
        faults: By position, what went wrong there; the other columns then hold "", 0.0 and ``TRUNCATED``.
    """

    observations: list[str]
    rewards: list[float]
    flags: list[int]
    infos: dict[int, dict[str, Any]]
    faults: dict[int, ProgramFault]

    def extend(self, other: Batch) -> None:
        """Append another batch's rows."""
        start = len(self.flags)
        self.observations.extend(other.observations)
        self.rewards.extend(other.rewards)
        self.flags.extend(other.flags)
        self.infos.update((start + position, info) for position, info in other.infos.items())
        self.faults.update((start + position, fault) for position, fault in other.faults.items())

    def transitions(self) -> list[Transition | ProgramFault]:
        """The rows one by one."""
        return [
            self.faults.get(position)
            or Transition(text, reward, bool(flag & TERMINATED), bool(flag & TRUNCATED), self.infos.get(position, {}))
            for position, (text, reward, flag) in enumerate(
                zip(self.observations, self.rewards, self.flags, strict=True)
            )
        ]


class _Nature(NamedTuple):
    kind: str
    draws_globally: bool


@functools.lru_cache(maxsize=512)
def _nature(source: str) -> _Nature:
    """What the source tells before it runs: which zygote it needs, and whether it uses the global generators."""
    return _Nature(kind_for(required_imports(source)), may_draw_globally(source))


def _failure(fault: ProgramFault) -> Batch:
    return Batch([""], [0.0], [TRUNCATED], {}, {0: fault})


class LoadReport(NamedTuple):
    """What a program says about itself once it runs.

    Attributes:
        class_name: Name of its class.
        adapters: Names of the adapters in use so far, static ones of the manifest first.
        has_solution: Whether it has a ``solution()``.
        max_turns: Its own turn limit, or ``None`` where it shows none.
        is_tool_use: Whether it derives from ``ToolUseBaseEnv``.
        base: ``plain``, ``gymnasium``, ``gem`` or ``tool_use``.
    """

    class_name: str
    adapters: tuple[str, ...]
    has_solution: bool
    max_turns: int | None
    is_tool_use: bool
    base: str


@dataclass(frozen=True, slots=True)
class Access:
    """An attempt of the program's own code (see ``audit.py``).

    Attributes:
        kind: ``file``, ``network``, ``process``, ``environment``, ``native``, ``thread``, ``eval`` or ``input``.
        detail: The event and what it was about.
        line: Line of the program.
        count: How often.
    """

    kind: str
    detail: str
    line: int
    count: int


class Criterion(NamedTuple):
    """The result of a tool-use criterion: its truth, and the name of the type that it returned."""

    holds: bool
    type_name: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A save point of an instance: its past, and where a copy of it lies while its worker lives.

    Attributes:
        seed: The instance's seed.
        actions: What was played since the reset.
        copy: (worker generation, number) of the in-worker copy; ``None`` when only a replay can restore it.
    """

    seed: int
    actions: tuple[str, ...]
    copy: tuple[int, int] | None = None


@dataclass(slots=True)
class _Slot:
    seed: int = 0
    actions: list[str] = field(default_factory=list)
    fault: ProgramFault | None = None


class Session:
    """One program in one isolated worker. Starts lazily; not thread-safe.

    Args:
        program: What to run.
        isolation: L3, L2, L1 or L0; absent: the stronger of L3 and L2 that works here, else an error.
        limits: What the program may use.
        world: Chance and time; the default is that of all play.
        max_turns: Passed to the program's constructor when given.
    """

    def __init__(
        self,
        program: Program,
        *,
        isolation: Isolation | int | str | None = None,
        limits: Limits | None = None,
        world: World | None = None,
        max_turns: int | None = None,
    ) -> None:
        self.program = program
        self.limits = limits or Limits()
        self._isolation = Isolation.parse(isolation)
        self._world = world or World()
        self._arguments = dict(program.manifest.kwargs)
        if max_turns is not None:
            self._arguments["max_turns"] = max_turns
        self._channel: Channel | None = None
        self._prepared: WorkerProcess | None = None
        self._generation = 0
        self._num_requests = 0
        self._report: LoadReport | None = None
        self._adapters: dict[str, None] = dict.fromkeys(program.manifest.adapters)
        self._slots: dict[int, _Slot] = {}
        self._next_slot = 0
        self._stale: set[int] = set()
        self._faulty: set[int] = set()
        self._accesses_of_failed_load: list[Access] = []
        self._pending: tuple[str, Sequence[tuple[int, Any]], ProgramFault | None] | None = None

    # ---- starting and ending

    @property
    def level(self) -> Isolation:
        """The isolation in use."""
        return resolve_level(self._isolation)

    @property
    def report(self) -> LoadReport:
        """What the program says about itself; loads it when needed.

        Raises:
            ProgramFault: It cannot be loaded.
        """
        self._start()
        assert self._report is not None
        return self._report._replace(adapters=tuple(self._adapters))

    def _start(self) -> Channel:
        if self._channel is not None:
            return self._channel
        channel = self._new_channel()
        self._generation += 1
        self._num_requests = 0
        arguments = [
            self.program.source,
            self.program.manifest.class_name,
            self._arguments,
            asdict(self._world),
            self.limits.text_chars,
            _nature(self.program.source).draws_globally,
        ]
        try:
            channel.send("load", arguments, self.limits.load_seconds)
            facts = self._value(channel)
        except ProgramError:
            if self._world.audit:  # what it tried while loading is worth knowing, though it failed
                channel.send("accesses", [], self.limits.load_seconds)
                self._accesses_of_failed_load = [Access(*row) for row in self._value(channel)]
            channel.close()
            raise
        except BaseException:
            channel.close()
            raise
        self._channel = channel
        self._report = LoadReport(
            class_name=str(facts["class_name"]),
            adapters=(),
            has_solution=bool(facts["has_solution"]),
            max_turns=facts["max_turns"] if isinstance(facts["max_turns"], int) else None,
            is_tool_use=facts["base"] == "tool_use",
            base=str(facts["base"]),
        )
        self._stale = {slot for slot, state in self._slots.items() if state.fault is None}
        return channel

    def prepare(self) -> None:
        """Have a locked-in worker ready, so that the first reset need not wait for one."""
        if self._channel is None and self._prepared is None and self.level is not Isolation.L0:
            self._prepared = self._fork()

    def _new_channel(self) -> Channel:
        if self.level is Isolation.L0:
            if self._world.audit:
                raise SandboxError("attempts can be recorded only in a worker of its own (L1 or stronger), not at L0")
            return LocalChannel()
        process, self._prepared = self._prepared or self._fork(), None
        return WorkerChannel(process, self.limits.text_chars)

    def _fork(self) -> WorkerProcess:
        kind = _nature(self.program.source).kind
        process = zygote_pool().fork(self.level, kind, self._world.hash_seed, self.limits)
        try:
            process.await_ready()
        except SandboxError:
            process.kill()
            raise
        return process

    def death_watch(self) -> DeathWatch:
        """Watch for the death of the present worker.

        Raises:
            SandboxError: There is no worker process (L0), or this system has no process handles.
        """
        channel = self._start()
        if not isinstance(channel, WorkerChannel):
            raise SandboxError("at L0 there is no process to watch")
        return channel.process.watch()

    def _kill(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def close(self) -> None:
        """End the worker. The session can be used again: instances are replayed in a new one."""
        self._kill()
        if self._prepared is not None:
            self._prepared.kill()
            self._prepared = None
        self._pending = None

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- instances

    def open(self) -> int:
        """Make room for an instance; return its slot, to be reset next."""
        slot = self._next_slot
        self._next_slot += 1
        self._slots[slot] = _Slot()
        self._blame(slot, ProgramError("this instance was not reset"))
        return slot

    def close_slot(self, slot: int) -> None:
        """Forget an instance."""
        del self._slots[slot]
        self._stale.discard(slot)
        self._faulty.discard(slot)
        if self._channel is not None:
            self._ask("drop", slot)

    # ---- playing

    def reset(self, slot: int, seed: int) -> Transition:
        """Start an episode.

        Raises:
            ProgramFault: The program failed.
        """
        return _unwrap(self.reset_many([(slot, seed)])[0])

    def step(self, slot: int, action: str) -> Transition:
        """Play one action.

        Raises:
            ProgramFault: The program failed; the instance must be reset before it is used again.
        """
        return _unwrap(self.step_many([(slot, action)])[0])

    def reset_many(self, items: Sequence[tuple[int, int]]) -> list[Transition | ProgramFault]:
        """Start episodes of several instances, (slot, seed) each, in one message."""
        self.begin("reset", items)
        return self.finish().transitions()

    def step_many(self, items: Sequence[tuple[int, str]]) -> list[Transition | ProgramFault]:
        """Play one action in each of several instances, (slot, action) each, in one message."""
        self.begin("step", items)
        return self.finish().transitions()

    def begin(self, operation: str, items: Sequence[tuple[int, Any]]) -> None:
        """Send ``reset`` or ``step`` for several instances without waiting; ``finish`` collects the results."""
        if self._pending is not None:
            raise SandboxError("begin was called twice without finish")
        if not items:
            self._pending = (operation, items, None)
            return
        fault: ProgramFault | None = None
        try:
            channel = self._start()
            if operation == "step" and self._stale:
                self._replay_stale(slot for slot, _ in items)
                channel = self._start()
            channel.send(operation, items, self._seconds(operation, len(items)))
            self._num_requests += 1
        except ProgramFault as error:
            fault = error
        self._pending = (operation, items, fault)

    def finish(self) -> Batch:
        """Collect the results of ``begin``, one row an item, in its order."""
        assert self._pending is not None
        operation, items, fault = self._pending
        self._pending = None
        done = Batch([], [], [], {}, {})
        if fault is None and items:
            try:
                done = self._collect(operation, items, done)
            except ProgramFault as error:
                fault = error
        if fault is not None:
            done.extend(self._recover(operation, items[len(done.flags) :], fault))
        return done

    def _collect(self, operation: str, items: Sequence[tuple[int, Any]], done: Batch) -> Batch:
        """Receive frames until the answer is complete; ``done`` keeps what came before a fault."""
        channel = self._start()
        last = False
        while not last:
            rows = _rows(channel.receive())
            last = rows.last
            if rows.adapters:
                self._adapters.update(dict.fromkeys(rows.adapters))
            start, count = len(done.flags), len(rows.flags)
            if not count == len(rows.rewards) == len(rows.observations) or start + count > len(items):
                raise ProgramCrash("the program's process sent too many or uneven results", reason="protocol")
            accepted = self._accept(operation, items[start : start + count] if start else items, rows)
            if start:
                done.extend(accepted)
            else:
                done = accepted
        if len(done.flags) != len(items):
            raise ProgramCrash("the program's process sent too few results", reason="protocol")
        return done

    def _accept(self, operation: str, items: Sequence[tuple[int, Any]], rows: Rows) -> Batch:
        """Check rows against the limits, and write them into the instances' pasts."""
        bound, stepping = self.limits.abs_reward, operation == "step"
        faults: dict[int, ProgramFault] = {}
        if rows.flags and (
            max(rows.flags) > TERMINATED | TRUNCATED
            or min(rows.flags) < 0
            or max(map(len, rows.observations)) > self.limits.text_chars
            or not (-bound <= min(rows.rewards) and max(rows.rewards) <= bound and math.isfinite(sum(rows.rewards)))
            or (stepping and self._faulty)
        ):
            faults = self._faults_of(stepping, items, rows)
        slots = self._slots
        if stepping and not faults:
            for slot, action in items[: len(rows.flags)]:
                slots[slot].actions.append(action)
        else:
            for position, (slot, value) in enumerate(items[: len(rows.flags)]):
                if position in faults:
                    self._blame(slot, faults[position])
                    rows.observations[position], rows.rewards[position], rows.flags[position] = "", 0.0, TRUNCATED
                elif stepping:
                    slots[slot].actions.append(value)
                else:
                    slots[slot] = _Slot(value)
                    self._stale.discard(slot)
                    self._faulty.discard(slot)
        return Batch(rows.observations, rows.rewards, rows.flags, rows.infos, faults)

    def _blame(self, slot: int, fault: ProgramFault) -> None:
        """Mark an instance as unusable until it is reset."""
        self._slots[slot].fault = fault
        self._faulty.add(slot)

    def _faults_of(self, stepping: bool, items: Sequence[tuple[int, Any]], rows: Rows) -> dict[int, ProgramFault]:
        bound = self.limits.abs_reward
        faults: dict[int, ProgramFault] = {}
        for position, (text, reward, flag) in enumerate(zip(rows.observations, rows.rewards, rows.flags, strict=True)):
            earlier = self._slots[items[position][0]].fault
            if stepping and earlier is not None:
                faults[position] = earlier
            elif flag & FAILED:
                faults[position] = _error(text)
            elif len(text) > self.limits.text_chars or not 0 <= flag <= TERMINATED | TRUNCATED:
                faults[position] = ProgramCrash("the program's process forged a result", reason="protocol")
            elif not -bound <= reward <= bound:
                faults[position] = ProgramError(f"reward {reward!r} is outside [-{bound:g}, {bound:g}]")
        return faults

    def _seconds(self, operation: str, num_items: int) -> float:
        seconds = self.limits.step_seconds if operation == "step" else self.limits.load_seconds
        return seconds if num_items == 1 else seconds + FLUSH_SECONDS

    # ---- after a death

    def _recover(self, operation: str, items: Sequence[tuple[int, Any]], fault: ProgramFault) -> Batch:
        """Replace the dead worker, then find the culprit among the unanswered items by playing them one at a time.

        A lone item is blamed at once if it hung or cheated. If its worker merely died, that may have been worn out
        (its processor time is limited), so the item gets one more try in a fresh one.
        """
        fresh = self._num_requests <= 1
        self._kill()
        if len(items) == 1 and (fresh or fault.reason != "crash"):
            self._blame(items[0][0], fault)
            return _failure(fault)
        results = Batch([], [], [], {}, {})
        for item in items:
            try:
                if operation == "step":
                    self._start()
                    self._replay_stale([item[0]])
                results.extend(self._attempt(operation, item))
            except ProgramFault as error:
                self._kill()
                self._blame(item[0], error)
                results.extend(_failure(error))
        return results

    def _attempt(self, operation: str, item: tuple[int, Any]) -> Batch:
        channel = self._start()
        channel.send(operation, [item], self._seconds(operation, 1))
        self._num_requests += 1
        return self._collect(operation, [item], Batch([], [], [], {}, {}))

    def _replay_stale(self, slots: Iterable[int]) -> None:
        """Bring instances that lived in an earlier worker to where they were."""
        for slot in slots:
            if slot in self._stale:
                self._stale.discard(slot)
                state = self._slots[slot]
                try:
                    self._replay(slot, state.seed, state.actions)
                except ProgramFault as fault:
                    self._kill()
                    self._blame(slot, fault)
                    self._start()

    def _replay(self, slot: int, seed: int, actions: Sequence[str]) -> None:
        channel = self._start()
        for operation, items in (("reset", [(slot, seed)]), ("step", [(slot, action) for action in actions])):
            if not items:
                continue
            channel.send(operation, items, self._seconds(operation, len(items)))
            last = False
            while not last:
                rows = _rows(channel.receive())
                last = rows.last
                for text, flag in zip(rows.observations, rows.flags, strict=True):
                    if flag & FAILED:
                        raise ProgramError(f"a replay went another way than the first play: {text[:500]}")

    # ---- save points

    def snapshot(self, slot: int) -> Snapshot:
        """Save an instance.

        Raises:
            ProgramFault: The instance is faulty.
        """
        state = self._ready(slot)
        number = self._ask("snapshot", slot)
        copy = (self._generation, number) if isinstance(number, int) else None
        return Snapshot(state.seed, tuple(state.actions), copy)

    def restore(self, slot: int, snapshot: Snapshot) -> None:
        """Bring an instance back to a save point: from the copy in the worker, else by replaying its past.

        Raises:
            ProgramFault: The program failed in the replay.
        """
        self._start()
        state = self._slots[slot]
        copied = snapshot.copy is not None and snapshot.copy[0] == self._generation
        if not (copied and snapshot.copy is not None and self._ask("restore", slot, snapshot.copy[1]) is True):
            self._replay(slot, snapshot.seed, snapshot.actions)
        state.seed, state.actions, state.fault = snapshot.seed, list(snapshot.actions), None
        self._stale.discard(slot)
        self._faulty.discard(slot)

    # ---- questions

    def solution(self, slot: int) -> str | None:
        """The program's own solution of an instance just reset; ``None`` where it has none.

        Raises:
            ProgramFault: ``solution()`` raised or returned no text.
        """
        self._ready(slot)
        value = self._ask("solution", slot)
        return value if isinstance(value, str) else None

    def tools(self, slot: int) -> list[dict[str, Any]]:
        """Tool schemas of an instance in OpenAI form; empty for games."""
        self._ready(slot)
        return [tool for tool in self._ask("tools", slot) if isinstance(tool, dict)]

    def tool_methods(self, slot: int) -> dict[str, list[dict[str, Any]]]:
        """Parameters of every ``tool_…`` method: name, required, kind."""
        self._ready(slot)
        return dict(self._ask("tool_methods", slot))

    def num_criteria(self, slot: int) -> int:
        """Number of instructions that have a criterion."""
        self._ready(slot)
        return int(self._ask("num_criteria", slot))

    def criterion(self, slot: int, index: int) -> Criterion:
        """Evaluate a criterion on the instance's present state.

        Raises:
            ProgramFault: The criterion raised.
        """
        self._ready(slot)
        holds, type_name = self._ask("criterion", slot, index)
        return Criterion(bool(holds), str(type_name))

    def fingerprint(self, slot: int) -> str | None:
        """A digest that equal states of an instance share; ``None`` where its state cannot be read completely.

        Raises:
            ProgramFault: The instance is faulty.
        """
        self._ready(slot)
        value = self._ask("fingerprint", slot)
        return value if isinstance(value, str) else None

    def accesses(self) -> list[Access]:
        """What the program's own code tried to reach so far; needs ``World(audit=True)``."""
        if not self._world.audit:
            raise SandboxError("accesses are recorded only under World(audit=True)")
        try:
            self._start()
        except ProgramError:
            return self._accesses_of_failed_load
        return [Access(*row) for row in self._ask("accesses")]

    def _ready(self, slot: int) -> _Slot:
        self._start()
        if slot in self._stale:
            self._replay_stale([slot])
        state = self._slots[slot]
        if state.fault is not None:
            raise state.fault
        return state

    def _ask(self, operation: str, *arguments: Any) -> Any:
        channel = self._start()
        try:
            channel.send(operation, arguments, self.limits.load_seconds)
            self._num_requests += 1
            return self._value(channel)
        except ProgramError:
            raise
        except ProgramFault:
            self._kill()
            raise

    def _value(self, channel: Channel) -> Any:
        reply = channel.receive()
        if not isinstance(reply, Value):
            raise ProgramCrash("the program's process sent an answer of another kind", reason="protocol")
        self._adapters.update(dict.fromkeys(reply.adapters))
        if reply.failed:
            raise _error(str(reply.value))
        return reply.value


def _rows(reply: Reply) -> Rows:
    if not isinstance(reply, Rows):
        raise ProgramCrash("the program's process sent an answer of another kind", reason="protocol")
    return reply


def _error(text: str) -> ProgramError:
    return ProgramError(text[:1000], reason="memory" if text.startswith("MemoryError") else "error")


def _unwrap(result: Transition | ProgramFault) -> Transition:
    if isinstance(result, ProgramFault):
        raise result
    return result
