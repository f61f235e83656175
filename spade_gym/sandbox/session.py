"""A session: one program in one worker, many instances of it, and what to do when the worker dies.

Every instance remembers its seed and actions. When a step hangs or crashes, its worker is killed and a new one
is started; the other instances are replayed there, so they lose nothing, and the steps that were under way with
the faulty one are played one at a time, so that only the culprit is blamed.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Annotated, Any

import msgspec

from spade_gym.errors import ProgramCrash, ProgramError, ProgramFault, SandboxError
from spade_gym.programs.program import Program
from spade_gym.sandbox.answers import Access, Batch, Criterion, LoadReport, Snapshot
from spade_gym.sandbox.base import Isolation, Limits, World
from spade_gym.sandbox.channel import Channel
from spade_gym.sandbox.link import Link, error_of, rows_of
from spade_gym.sandbox.wire import FAILED, TERMINATED, TRUNCATED, Rows
from spade_gym.sandbox.worker import FLUSH_SECONDS
from spade_gym.sandbox.zygotes import DeathWatch
from spade_gym.types import Transition

__all__ = ["Access", "Batch", "Criterion", "LoadReport", "Session", "Snapshot"]

_Count = Annotated[int, msgspec.Meta(ge=0, le=10_000)]


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
        self._world = world or World()
        arguments = dict(program.manifest.kwargs)
        if max_turns is not None:
            arguments["max_turns"] = max_turns
        self._link = Link(program, Isolation.parse(isolation), self.limits, self._world, arguments)
        self._generation = 0
        self._slots: dict[int, _Slot] = {}
        self._next_slot = 0
        self._stale: set[int] = set()
        self._faulty: set[int] = set()
        self._pending: tuple[str, Sequence[tuple[int, Any]], ProgramFault | Batch | None] | None = None

    # ---- starting and ending

    @property
    def level(self) -> Isolation:
        """The isolation in use."""
        return self._link.level

    @property
    def report(self) -> LoadReport:
        """What the program says about itself; loads it when needed.

        Raises:
            ProgramFault: It cannot be loaded.
        """
        self._start()
        return self._link.report

    def prepare(self) -> None:
        """Have a locked-in worker ready, so that the first reset need not wait for one."""
        self._link.prepare()

    def death_watch(self) -> DeathWatch:
        """Watch for the death of the present worker.

        Raises:
            SandboxError: There is no worker process (L0), or this system has no process handles.
        """
        self._start()
        return self._link.death_watch()

    def _start(self) -> Channel:
        """The channel to a worker that has the program loaded; instances of an earlier one are then stale."""
        channel = self._link.start()
        if self._link.generation != self._generation:
            self._generation = self._link.generation
            self._stale = {slot for slot, state in self._slots.items() if state.fault is None}
        return channel

    def close(self) -> None:
        """End the worker. The session can be used again: instances are replayed in a new one."""
        self._link.close()
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
        if self._link.is_up:
            with contextlib.suppress(ProgramFault):  # the program's close() is of no interest
                self._link.ask(None, "drop", slot)

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
        outcome: ProgramFault | Batch | None = None
        if items:
            try:
                channel = self._start()
            except ProgramFault as fault:
                outcome = self._blame_all(items, fault)
            else:
                outcome = self._send(channel, operation, items)
        self._pending = (operation, items, outcome)

    def _send(self, channel: Channel, operation: str, items: Sequence[tuple[int, Any]]) -> ProgramFault | None:
        try:
            if self._stale and operation == "step":
                self._bring_back([slot for slot, _ in items])
                channel = self._start()
            channel.send(operation, items, self._seconds(operation, len(items)))
        except ProgramFault as fault:
            return fault
        return None

    def finish(self) -> Batch:
        """Collect the results of ``begin``, one row an item, in its order."""
        assert self._pending is not None
        operation, items, outcome = self._pending
        self._pending = None
        if isinstance(outcome, Batch) or not items:
            return outcome if isinstance(outcome, Batch) else Batch.empty()
        done = Batch.empty()
        if outcome is None:
            try:
                return self._collect(operation, items, done)
            except ProgramFault as fault:
                outcome = fault
        done.extend(self._recover(operation, items[len(done.flags) :], outcome))
        return done

    def _collect(self, operation: str, items: Sequence[tuple[int, Any]], done: Batch) -> Batch:
        """Receive frames until the answer is complete; what came before a fault is in ``done``."""
        channel = self._start()
        while True:
            start = len(done.flags)
            rows = rows_of(channel, len(items) - start)
            if rows.adapters:
                self._link.note(rows.adapters)
            accepted = self._accept(operation, items[start:] if start else items, rows)
            if rows.last and not start:
                return accepted
            done.extend(accepted)
            if rows.last:
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

    def _blame_all(self, items: Sequence[tuple[int, Any]], fault: ProgramFault) -> Batch:
        for slot, _ in items:
            self._blame(slot, fault)
        return Batch.failed([fault] * len(items))

    def _faults_of(self, stepping: bool, items: Sequence[tuple[int, Any]], rows: Rows) -> dict[int, ProgramFault]:
        bound = self.limits.abs_reward
        faults: dict[int, ProgramFault] = {}
        for position, (text, reward, flag) in enumerate(zip(rows.observations, rows.rewards, rows.flags, strict=True)):
            earlier = self._slots[items[position][0]].fault
            if stepping and earlier is not None:
                faults[position] = earlier
            elif not 0 <= flag <= TERMINATED | TRUNCATED | FAILED or not math.isfinite(reward):
                faults[position] = ProgramCrash("the program's process forged a result", reason="protocol")
            elif flag & FAILED:
                faults[position] = error_of(text)
            elif len(text) > self.limits.text_chars:
                faults[position] = ProgramCrash("the program's process forged an observation", reason="protocol")
            elif not -bound <= reward <= bound:
                faults[position] = ProgramError(f"reward {reward!r} is outside [-{bound:g}, {bound:g}]")
        for position in faults:
            rows.infos.pop(position, None)
        if any(fault.reason == "protocol" for fault in faults.values()):
            self._link.kill()
        return faults

    def _seconds(self, operation: str, num_items: int) -> float:
        seconds = self.limits.step_seconds if operation == "step" else self.limits.load_seconds
        return seconds if num_items == 1 else seconds + FLUSH_SECONDS

    # ---- after a death

    def _recover(self, operation: str, items: Sequence[tuple[int, Any]], fault: ProgramFault) -> Batch:
        """Replace the dead worker, then find the culprit among the unanswered items by playing them one at a time.

        A lone item is blamed at once if it hung. If its worker died, that may have been worn out (its processor time
        is limited), and if it broke the protocol, that may have been left over from another instance's step: then
        the item gets one more try in a fresh one.
        """
        self._link.kill()
        if len(items) == 1 and fault.reason == "timeout":
            return self._blame_all(items, fault)
        results = Batch.empty()
        for position, (slot, value) in enumerate(items):
            try:
                self._start()
            except ProgramFault as error:
                results.extend(self._blame_all(items[position:], error))
                break
            try:
                results.extend(self._attempt(operation, slot, value))
            except ProgramFault as error:
                self._link.kill()
                results.extend(self._blame_all([(slot, value)], error))
        return results

    def _attempt(self, operation: str, slot: int, value: Any) -> Batch:
        if operation == "step":
            self._bring_back([slot])
        items = [(slot, value)]
        self._start().send(operation, items, self._seconds(operation, 1))
        return self._collect(operation, items, Batch.empty())

    def _bring_back(self, slots: Sequence[int]) -> None:
        """Bring instances that lived in an earlier worker to where they were.

        One that cannot be brought back is to blame, unless its worker died: that may have been worn out by the
        others, so it comes first in the next one. Whatever was brought back before is stale again then.
        """
        died: set[int] = set()
        while waiting := sorted(
            (slot for slot in set(slots) if slot in self._stale), key=lambda slot: slot not in died
        ):
            for slot in waiting:
                try:
                    self._replay(slot, self._slots[slot].seed, self._slots[slot].actions)
                    self._stale.discard(slot)
                except ProgramFault as fault:
                    if fault.reason != "crash" or slot in died:
                        self._blame(slot, fault)
                    died.add(slot)
                    self._start()
                    break

    def _replay(self, slot: int, seed: int, actions: Sequence[str]) -> None:
        """Play an instance's past again; kills the worker where that fails.

        Raises:
            ProgramFault: It went another way than before.
        """
        channel = self._start()
        try:
            for operation, items in (("reset", [(slot, seed)]), ("step", [(slot, action) for action in actions])):
                if items:
                    channel.send(operation, items, self._seconds(operation, len(items)))
                    self._check_replay(channel, len(items))
        except ProgramFault:
            self._link.kill()
            raise

    def _check_replay(self, channel: Channel, num_left: int) -> None:
        while num_left:
            rows = rows_of(channel, num_left)
            num_left = 0 if rows.last else num_left - len(rows.flags)
            for text, flag in zip(rows.observations, rows.flags, strict=True):
                if flag & FAILED:
                    raise ProgramError(f"a replay went another way than the first play: {text[:500]}")

    # ---- save points

    def snapshot(self, slot: int) -> Snapshot:
        """Save an instance.

        Raises:
            ProgramFault: The instance is faulty.
        """
        number: int | None = self._question(int | None, "snapshot", slot)
        state = self._slots[slot]
        copy = (self._generation, number) if number is not None else None
        return Snapshot(state.seed, tuple(state.actions), copy)

    def restore(self, slot: int, snapshot: Snapshot) -> None:
        """Bring an instance back to a save point: from the copy in the worker, else by replaying its past.

        Raises:
            ProgramFault: The program failed in the replay.
        """
        self._start()
        done = False
        if snapshot.copy is not None and snapshot.copy[0] == self._generation:
            with contextlib.suppress(ProgramError, ProgramCrash):
                done = self._link.ask(bool, "restore", slot, snapshot.copy[1])
            self._start()
        if not done:
            self._replay(slot, snapshot.seed, snapshot.actions)
        self._slots[slot] = _Slot(snapshot.seed, list(snapshot.actions))
        self._stale.discard(slot)
        self._faulty.discard(slot)

    # ---- questions

    def solution(self, slot: int) -> str | None:
        """The program's own solution of an instance just reset; ``None`` where it has none.

        Raises:
            ProgramFault: ``solution()`` raised or returned no text.
        """
        text: str | None = self._question(str | None, "solution", slot)
        return text

    def tools(self, slot: int) -> list[dict[str, Any]]:
        """Tool schemas of an instance in OpenAI form; empty for games."""
        found: list[Any] = self._question(list[Any], "tools", slot)
        return [tool for tool in found if isinstance(tool, dict)]

    def tool_methods(self, slot: int) -> dict[str, list[dict[str, Any]]]:
        """Parameters of every ``tool_…`` method: name, required, kind."""
        found: dict[str, list[dict[str, Any]]] = self._question(dict[str, list[dict[str, Any]]], "tool_methods", slot)
        return found

    def num_criteria(self, slot: int) -> int:
        """Number of instructions that have a criterion."""
        count: int = self._question(_Count, "num_criteria", slot)
        return count

    def criterion(self, slot: int, index: int) -> Criterion:
        """Evaluate a criterion on the instance's present state.

        Raises:
            ProgramFault: The criterion raised.
        """
        return Criterion(*self._question(tuple[bool, str], "criterion", slot, index))

    def fingerprint(self, slot: int) -> str | None:
        """A digest that equal states of an instance share; ``None`` where its state cannot be read completely.

        Raises:
            ProgramFault: The instance is faulty.
        """
        digest: str | None = self._question(str | None, "fingerprint", slot)
        return digest

    def accesses(self) -> list[Access]:
        """What the program's own code tried to reach so far; needs ``World(audit=True)``."""
        if not self._world.audit:
            raise SandboxError("accesses are recorded only under World(audit=True)")
        return self._link.accesses()

    def _question(self, kind: Any, operation: str, slot: int, *arguments: Any) -> Any:
        """Ask about an instance; once more in a fresh worker when the present one dies, perhaps worn out."""
        self._make_ready(slot)
        try:
            return self._link.ask(kind, operation, slot, *arguments)
        except ProgramCrash as fault:
            if fault.reason != "crash":
                raise
        self._make_ready(slot)
        return self._link.ask(kind, operation, slot, *arguments)

    def _make_ready(self, slot: int) -> None:
        self._start()
        if slot in self._stale:
            self._bring_back([slot])
        fault = self._slots[slot].fault
        if fault is not None:
            raise fault


def _unwrap(result: Transition | ProgramFault) -> Transition:
    if isinstance(result, ProgramFault):
        raise result
    return result
