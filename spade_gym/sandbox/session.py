"""A session: one program in one worker, many instances of it, and what to do when the worker dies.

Every instance remembers its seed and actions. When a step hangs or crashes, its worker is killed and a new one
is started; the other instances are replayed there, so they lose nothing, and the steps that were under way with
the faulty one are played one at a time, so that only the culprit is blamed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import Any, NamedTuple

from spade_gym.errors import ProgramCrash, ProgramError, ProgramFault, SandboxError
from spade_gym.programs.contract import required_imports
from spade_gym.programs.program import Program
from spade_gym.sandbox.base import Isolation, Limits, World
from spade_gym.sandbox.channel import Channel, LocalChannel, WorkerChannel
from spade_gym.sandbox.preload import kind_for
from spade_gym.sandbox.wire import Rows, Value
from spade_gym.sandbox.worker import FLUSH_SECONDS
from spade_gym.sandbox.zygotes import DeathWatch, WorkerProcess, resolve_level, zygote_pool
from spade_gym.types import Transition

Row = tuple[int, bool, str, float, bool, bool, dict[str, Any]]


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


class Access(NamedTuple):
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
        ]
        try:
            channel.send("load", arguments, self.limits.load_seconds)
            facts = self._value(channel)
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
        kind = kind_for(required_imports(self.program.source))
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
        self._slots[slot] = _Slot(fault=ProgramError("this instance was not reset"))
        return slot

    def close_slot(self, slot: int) -> None:
        """Forget an instance."""
        del self._slots[slot]
        self._stale.discard(slot)
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
        return [_transition(row) for row in self.finish()]

    def step_many(self, items: Sequence[tuple[int, str]]) -> list[Transition | ProgramFault]:
        """Play one action in each of several instances, (slot, action) each, in one message."""
        self.begin("step", items)
        return [_transition(row) for row in self.finish()]

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

    def finish(self) -> list[Row | ProgramFault]:
        """Collect the results of ``begin``, one row or fault an item, in its order."""
        assert self._pending is not None
        operation, items, fault = self._pending
        self._pending = None
        if not items:
            return []
        rows: list[Row] = []
        if fault is None:
            channel = self._start()
            try:
                while True:
                    reply = channel.receive()
                    if not isinstance(reply, Rows):
                        raise ProgramCrash("the program's process sent an answer of another kind", reason="protocol")
                    rows = rows + reply.rows if rows else reply.rows
                    if reply.adapters:
                        self._adapters.update(dict.fromkeys(reply.adapters))
                    if reply.last or len(rows) > len(items):
                        break
                if len(rows) != len(items):
                    rows = []
                    raise ProgramCrash("the program's process sent too few or too many results", reason="protocol")
            except ProgramFault as error:
                fault = error
        results = self._accept(operation, items, rows)
        if fault is not None:
            results += self._recover(operation, items[len(results) :], fault)
        return results

    def _accept(self, operation: str, items: Sequence[tuple[int, Any]], rows: list[Row]) -> list[Row | ProgramFault]:
        """Check rows against what was asked, and write them into the instances' pasts."""
        results: list[Row | ProgramFault] = []
        slots, text_chars, bound = self._slots, self.limits.text_chars, self.limits.abs_reward
        stepping = operation == "step"
        for (slot, value), row in zip(items, rows, strict=False):
            state = slots[slot]
            if row[1] or row[0] != slot or len(row[2]) > text_chars or not -bound <= row[3] <= bound:
                state.fault = self._fault_of(row, slot)
                results.append(state.fault)
            elif stepping and state.fault is not None:
                results.append(state.fault)
            else:
                if stepping:
                    state.actions.append(value)
                else:
                    state.seed, state.actions, state.fault = value, [], None
                    self._stale.discard(slot)
                results.append(row)
        return results

    def _fault_of(self, row: Row, slot: int) -> ProgramFault:
        if row[0] != slot:
            return ProgramCrash("the program's process answered for another instance", reason="protocol")
        if row[1]:
            return ProgramError(row[2][:1000], reason="memory" if row[2].startswith("MemoryError") else "error")
        if len(row[2]) > self.limits.text_chars:
            return ProgramCrash(f"an observation of {len(row[2])} characters passed the worker", reason="protocol")
        return ProgramError(f"reward {row[3]!r} is outside [-{self.limits.abs_reward:g}, {self.limits.abs_reward:g}]")

    def _seconds(self, operation: str, num_items: int) -> float:
        seconds = self.limits.step_seconds if operation == "step" else self.limits.load_seconds
        return seconds if num_items == 1 else seconds + FLUSH_SECONDS

    # ---- after a death

    def _recover(
        self, operation: str, items: Sequence[tuple[int, Any]], fault: ProgramFault
    ) -> list[Row | ProgramFault]:
        """Replace the dead worker, then find the culprit among the unanswered items by playing them one at a time.

        A lone item is blamed at once if it hung or cheated. If its worker merely died, that may have been worn out
        (its processor time is limited), so the item gets one more try in a fresh one.
        """
        fresh = self._num_requests <= 1
        self._kill()
        if len(items) == 1 and (fresh or fault.reason != "crash"):
            self._slots[items[0][0]].fault = fault
            return [fault]
        results: list[Row | ProgramFault] = []
        for item in items:
            try:
                if operation == "step":
                    self._start()
                    self._replay_stale([item[0]])
                results.append(self._attempt(operation, item))
            except ProgramFault as error:
                self._kill()
                self._slots[item[0]].fault = error
                results.append(error)
        return results

    def _attempt(self, operation: str, item: tuple[int, Any]) -> Row | ProgramFault:
        channel = self._start()
        channel.send(operation, [item], self._seconds(operation, 1))
        self._num_requests += 1
        reply = channel.receive()
        if not isinstance(reply, Rows) or len(reply.rows) != 1:
            raise ProgramCrash("the program's process sent an answer of another kind", reason="protocol")
        return self._accept(operation, [item], reply.rows)[0]

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
                    state.fault = fault
                    self._start()

    def _replay(self, slot: int, seed: int, actions: Sequence[str]) -> None:
        channel = self._start()
        for operation, items in (("reset", [(slot, seed)]), ("step", [(slot, action) for action in actions])):
            if not items:
                continue
            channel.send(operation, items, self._seconds(operation, len(items)))
            last = False
            while not last:
                reply = channel.receive()
                if not isinstance(reply, Rows):
                    raise ProgramCrash("the program's process sent an answer of another kind", reason="protocol")
                last = reply.last
                failed = next((row for row in reply.rows if row[1]), None)
                if failed is not None:
                    raise ProgramError(f"a replay went another way than the first play: {failed[2][:500]}")

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
        self._start()
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
            text = str(reply.value)[:1000]
            raise ProgramError(text, reason="memory" if text.startswith("MemoryError") else "error")
        return reply.value


def _transition(row: Row | ProgramFault) -> Transition | ProgramFault:
    return row if isinstance(row, ProgramFault) else Transition(*row[2:])


def _unwrap(result: Transition | ProgramFault) -> Transition:
    if isinstance(result, ProgramFault):
        raise result
    return result
