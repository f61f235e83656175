"""The plays of one program: many instances in one worker, and what to do when the worker dies.

Every instance remembers its seed and actions. When a step hangs or crashes, its worker is killed and a new one
is started; the other instances are replayed there, so they lose nothing, and the steps that were under way with
the faulty one are played one at a time, so that only the culprit is blamed.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from spade_gym.errors import ProgramCrash, ProgramError, ProgramFault, SandboxError
from spade_gym.sandbox.answers import Batch
from spade_gym.sandbox.base import Limits
from spade_gym.sandbox.channel import Channel
from spade_gym.sandbox.link import Link, error_of, rows_of
from spade_gym.sandbox.wire import FAILED, TERMINATED, TRUNCATED, Rows
from spade_gym.sandbox.worker import FLUSH_SECONDS
from spade_gym.types import Transition


@dataclass(slots=True)
class Slot:
    """What is known about an instance: its seed, its actions since the reset, and what went wrong with it."""

    seed: int = 0
    actions: list[str] = field(default_factory=list)
    fault: ProgramFault | None = None


class _Pending(NamedTuple):
    """A request that was begun.

    Attributes:
        operation: ``reset`` or ``step``.
        items: One (slot, seed or action) pair a row.
        before: What an interrupted request goes back to: the instances as they were, or (of a step whose results are
            being collected) their numbers of actions.
        earlier: Instances that were faulty before.
        generation: Of the worker that has the request.
        outcome: What is known of the result already.
    """

    operation: str
    items: Sequence[tuple[int, Any]]
    before: list[Any]
    earlier: frozenset[int]
    generation: int = 0
    outcome: ProgramFault | Batch | None = None


class Plays:
    """The instances of one program.

    Args:
        link: To the worker in which they live.
        limits: What they may use.

    Attributes:
        slots: What is known about each instance.
    """

    def __init__(self, link: Link, limits: Limits) -> None:
        self.slots: dict[int, Slot] = {}
        self._link = link
        self._limits = limits
        self._generation = 0
        self._next_slot = 0
        self._stale: set[int] = set()
        self._faulty: set[int] = set()
        self._pending: _Pending | None = None

    def start(self) -> Channel:
        """The channel to a worker that has the program loaded; instances of an earlier one are then stale."""
        channel = self._link.start()
        if self._link.generation != self._generation:
            self._generation = self._link.generation
            self._stale = {slot for slot, state in self.slots.items() if state.fault is None}
        return channel

    def forget_pending(self) -> None:
        """Give up a request that was begun."""
        self._pending = None

    def open(self) -> int:
        """Make room for an instance; return its slot, to be reset next."""
        slot = self._next_slot
        self._next_slot += 1
        self.slots[slot] = Slot()
        self._blame(slot, ProgramError("this instance was not reset"))
        return slot

    def check_slots(self, items: Sequence[tuple[int, Any]]) -> None:
        """Refuse slots that there are not.

        Raises:
            ValueError: A slot was never opened, or is closed.
        """
        for slot, _ in items:
            if slot not in self.slots:
                raise ValueError(
                    f"there is no slot {slot!r}: open() gives slots, close_slot() ends them; "
                    f"open now: {sorted(self.slots)[:20]}"
                )

    def close_slot(self, slot: int) -> None:
        """Forget an instance."""
        self.check_slots([(slot, None)])
        del self.slots[slot]
        self._stale.discard(slot)
        self._faulty.discard(slot)
        if self._link.is_up:
            with contextlib.suppress(ProgramFault):  # the program's close() is of no interest
                self._link.ask(None, "drop", slot)

    def step(self, slot: int, action: str) -> Transition | ProgramFault:
        """Play one action in one instance: ``begin`` and ``finish`` without what only batches need."""
        item = (slot, action)
        if self._stale or self._faulty or self._pending is not None or not self._link.is_up:
            self.begin("step", (item,))
            return self.finish().transitions()[0]
        state = self.slots.get(slot)
        if state is None:
            self.check_slots((item,))
            raise AssertionError
        num_before = len(state.actions)
        try:
            return self._step_alone(state, item)
        except ValueError:  # raised before anything was sent
            raise
        except BaseException:
            self._go_back(_Pending("step", (item,), [num_before], frozenset()))
            raise

    def _step_alone(self, state: Slot, item: tuple[int, str]) -> Transition | ProgramFault:
        channel = self._link.start()
        try:
            channel.send("step", (item,), self._limits.step_seconds)
            rows, infos = rows_of(channel, 1)
        except ProgramFault as fault:
            return self._recover("step", (item,), fault).transitions()[0]
        if rows.adapters:
            self._link.note(rows.adapters)
        text, reward, flag, bound = rows.observations[0], rows.rewards[0], rows.flags[0], self._limits.abs_reward
        if not (
            0 <= flag <= TERMINATED | TRUNCATED and -bound <= reward <= bound and len(text) <= self._limits.text_chars
        ):
            done = self._accept("step", (item,), rows, infos)
            return self._retry_worn("step", (item,), done, frozenset()).transitions()[0]
        state.actions.append(item[1])
        return Transition(text, reward, flag & TERMINATED != 0, flag & TRUNCATED != 0, infos.get(0) or {})

    def begin(self, operation: str, items: Sequence[tuple[int, Any]]) -> None:
        """Send ``reset`` or ``step`` for several instances without waiting; ``finish`` collects the results.

        Raises:
            ValueError: There is no such slot, or an action is no text that can be sent; nothing was sent then.
        """
        if self._pending is not None:
            raise SandboxError("begin was called twice without finish")
        slots = self.slots
        try:
            before = [slots[slot] for slot, _ in items]
        except (KeyError, TypeError):
            self.check_slots(items)
            raise
        pending = _Pending(operation, items, before, frozenset(self._faulty))
        if not items:
            self._pending = pending
            return
        try:
            self._pending = self._sent(pending)
        except ValueError:  # raised before anything was sent
            raise
        except BaseException:
            self._go_back(pending)
            raise

    def _sent(self, pending: _Pending) -> _Pending:
        operation, items = pending.operation, pending.items
        try:
            channel = self.start()
        except ProgramFault as fault:
            return pending._replace(outcome=self._blame_all(items, fault))
        try:
            if self._stale and operation == "step":
                self._bring_back([slot for slot, _ in items])
                channel = self.start()
            channel.send(operation, items, self._seconds(operation, len(items)))
        except ProgramFault as fault:
            return pending._replace(outcome=fault)
        return pending._replace(generation=self._link.generation)

    def finish(self) -> Batch:
        """Collect the results of ``begin``, one row an item, in its order."""
        pending, self._pending = self._pending, None
        if pending is None:
            raise SandboxError("finish was called without begin")
        outcome = pending.outcome
        if isinstance(outcome, Batch) or not pending.items:
            return outcome if isinstance(outcome, Batch) else Batch.empty()
        try:
            if pending.operation == "step":  # here, and not in begin: the worker is busy now anyway
                pending = pending._replace(before=[len(state.actions) for state in pending.before])
            done = self._results(pending, outcome)
            return self._retry_worn(pending.operation, pending.items, done, pending.earlier) if done.faults else done
        except BaseException:
            self._go_back(pending)
            raise

    def _results(self, pending: _Pending, fault: ProgramFault | None) -> Batch:
        operation, items = pending.operation, pending.items
        done = Batch.empty()
        if fault is None and not (self._link.is_up and self._link.generation == pending.generation):
            fault = ProgramCrash("the program's process was replaced while it had a request")
        if fault is None:
            try:
                return self._collect(operation, items, done)
            except ProgramFault as error:
                fault = error
        done.extend(self._recover(operation, items[len(done.flags) :], fault))
        return done

    def _go_back(self, pending: _Pending) -> None:
        """Undo a request that was interrupted (Ctrl-C): it did not happen, and all instances are replayed."""
        self._link.kill()
        for (slot, _), before in zip(pending.items, pending.before, strict=True):
            if isinstance(before, Slot):
                self.slots[slot] = before
            else:
                del self.slots[slot].actions[before:]
            if slot not in pending.earlier:
                self.slots[slot].fault = None
                self._faulty.discard(slot)
            else:
                self._faulty.add(slot)

    def _collect(self, operation: str, items: Sequence[tuple[int, Any]], done: Batch) -> Batch:
        """Receive frames until the answer is complete; what came before a fault is in ``done``."""
        channel = self.start()
        while True:
            start = len(done.flags)
            rows, infos = rows_of(channel, len(items) - start)
            if rows.adapters:
                self._link.note(rows.adapters)
            accepted = self._accept(operation, items[start:] if start else items, rows, infos)
            if rows.last and not start:
                return accepted
            done.extend(accepted)
            if rows.last:
                return done

    def _accept(
        self, operation: str, items: Sequence[tuple[int, Any]], rows: Rows, infos: dict[int, dict[str, Any]]
    ) -> Batch:
        """Check rows against the limits, and write them into the instances' pasts."""
        stepping = operation == "step"
        faults: dict[int, ProgramFault] = {}
        if (
            (any(rows.flags) and (max(rows.flags) > TERMINATED | TRUNCATED or min(rows.flags) < 0))
            or max(map(len, rows.observations)) > self._limits.text_chars
            or (any(rows.rewards) and not self._are_rewards(rows.rewards))
            or (stepping and self._faulty)
        ):
            faults = self._faults_of(stepping, items, rows)
            for position in faults:
                infos.pop(position, None)
        slots = self.slots
        if stepping and not faults:
            for slot, action in items if len(items) == len(rows.flags) else items[: len(rows.flags)]:
                slots[slot].actions.append(action)
        else:
            for position, (slot, value) in enumerate(items[: len(rows.flags)]):
                if position in faults:
                    self._blame(slot, faults[position])
                    rows.observations[position], rows.rewards[position], rows.flags[position] = "", 0.0, TRUNCATED
                elif stepping:
                    slots[slot].actions.append(value)
                else:
                    slots[slot] = Slot(value)
                    self._stale.discard(slot)
                    self._faulty.discard(slot)
        return Batch(rows.observations, rows.rewards, rows.flags, infos, faults)

    def _are_rewards(self, numbers: list[float]) -> bool:
        bound = self._limits.abs_reward
        return -bound <= min(numbers) and max(numbers) <= bound and math.isfinite(sum(numbers))

    def _blame(self, slot: int, fault: ProgramFault) -> None:
        """Mark an instance as unusable until it is reset."""
        self.slots[slot].fault = fault
        self._faulty.add(slot)

    def _blame_all(self, items: Sequence[tuple[int, Any]], fault: ProgramFault) -> Batch:
        for slot, _ in items:
            self._blame(slot, fault)
        return Batch.failed([fault] * len(items))

    def _faults_of(self, stepping: bool, items: Sequence[tuple[int, Any]], rows: Rows) -> dict[int, ProgramFault]:
        bound = self._limits.abs_reward
        faults: dict[int, ProgramFault] = {}
        for position, (text, reward, flag) in enumerate(zip(rows.observations, rows.rewards, rows.flags, strict=True)):
            earlier = self.slots[items[position][0]].fault
            if stepping and earlier is not None:
                faults[position] = earlier
            elif not 0 <= flag <= TERMINATED | TRUNCATED | FAILED or not math.isfinite(reward):
                faults[position] = ProgramCrash("the program's process forged a result", reason="protocol")
            elif flag & FAILED:
                faults[position] = error_of(text)
            elif len(text) > self._limits.text_chars:
                faults[position] = ProgramCrash("the program's process forged an observation", reason="protocol")
            elif not -bound <= reward <= bound:
                faults[position] = ProgramError(f"reward {reward!r} is outside [-{bound:g}, {bound:g}]")
        if any(fault.reason == "protocol" for fault in faults.values()):
            self._link.kill()
        return faults

    def _seconds(self, operation: str, num_items: int) -> float:
        seconds = self._limits.step_seconds if operation == "step" else self._limits.load_seconds
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
                self.start()
            except ProgramFault as error:
                results.extend(self._blame_all(items[position:], error))
                break
            try:
                results.extend(self._attempt(operation, slot, value))
            except ProgramFault as error:
                self._link.kill()
                results.extend(self._blame_all([(slot, value)], error))
        return results

    def _retry_worn(
        self, operation: str, items: Sequence[tuple[int, Any]], done: Batch, earlier: frozenset[int]
    ) -> Batch:
        """Give rows for which memory ran out one more try in a fresh worker: others may have worn out this one."""
        for position, fault in list(done.faults.items()):
            slot = items[position][0]
            if fault.reason == "memory" and slot not in earlier:
                self.slots[slot].fault = None
                self._faulty.discard(slot)
                again = self._recover(operation, (items[position],), fault)
                done.replace(position, again)
        return done

    def _attempt(self, operation: str, slot: int, value: Any) -> Batch:
        if operation == "step":
            self._bring_back([slot])
        items = [(slot, value)]
        self.start().send(operation, items, self._seconds(operation, 1))
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
                    self.replay(slot, self.slots[slot].seed, self.slots[slot].actions)
                    self._stale.discard(slot)
                except ProgramFault as fault:
                    if fault.reason != "crash" or slot in died:
                        self._blame(slot, fault)
                    died.add(slot)
                    self.start()
                    break

    def replay(self, slot: int, seed: int, actions: Sequence[str]) -> None:
        """Play an instance's past again; kills the worker where that fails.

        Raises:
            ProgramFault: It went another way than before.
        """
        channel = self.start()
        try:
            for operation, items in (("reset", [(slot, seed)]), ("step", [(slot, action) for action in actions])):
                if items:
                    channel.send(operation, items, self._seconds(operation, len(items)))
                    self._check_replay(channel, len(items))
        except BaseException:
            self._link.kill()
            raise

    def replay_anew(self, slot: int, seed: int, actions: Sequence[str]) -> None:
        """Replay, once more in a fresh worker when the present one dies, perhaps worn out by others.

        Raises:
            ProgramFault: It went another way than before.
        """
        try:
            self.replay(slot, seed, actions)
        except ProgramCrash as fault:
            if fault.reason != "crash":
                raise
            self.replay(slot, seed, actions)

    def _check_replay(self, channel: Channel, num_left: int) -> None:
        while num_left:
            rows, _ = rows_of(channel, num_left)
            num_left = 0 if rows.last else num_left - len(rows.flags)
            for text, flag in zip(rows.observations, rows.flags, strict=True):
                if flag & FAILED and text.startswith("MemoryError"):
                    raise ProgramCrash("memory ran out while a play was replayed")
                if flag & FAILED:
                    raise ProgramError(f"a replay went another way than the first play: {text[:500]}")

    def put(self, slot: int, seed: int, actions: Sequence[str]) -> None:
        """Write down that an instance is where these actions lead."""
        self.slots[slot] = Slot(seed, list(actions))
        self._stale.discard(slot)
        self._faulty.discard(slot)

    def make_ready(self, slot: int) -> None:
        """See that an instance lives in the present worker.

        Raises:
            ProgramFault: It is faulty.
        """
        self.check_slots([(slot, None)])
        self.start()
        if slot in self._stale:
            self._bring_back([slot])
        fault = self.slots[slot].fault
        if fault is not None:
            raise fault
