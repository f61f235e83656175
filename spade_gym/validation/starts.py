"""Where plays begin: freshly reset instances, or save points of earlier resets with the same seed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from spade_gym.errors import ProgramFault
from spade_gym.sandbox.session import Session, Snapshot
from spade_gym.types import Transition

#: Instances with a save point that are kept; a worker holds at most 256 save points.
_MAX_SAVED = 160
#: So many save points are tried before it is judged whether they are faster than resets.
_NUM_TIMED = 8


class _Saved(NamedTuple):
    seed: int
    snapshot: Snapshot
    first: Transition


class _Watch:
    """Adds up how long something takes."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.count = 0

    def add(self, seconds: float, count: int) -> None:
        """Record ``count`` times that took ``seconds`` together."""
        self.seconds += seconds
        self.count += count

    @property
    def mean(self) -> float:
        """Mean seconds of one; 0 where there was none."""
        return self.seconds / self.count if self.count else 0.0


class Starts:
    """Hands out slots of one session, each at the beginning of an episode.

    Save points are given up where going back to one takes longer than a reset (a large state, quickly made).

    Args:
        session: The program in its worker.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._plain: list[int] = []
        self._saved: dict[int, _Saved] = {}
        self._free: dict[int, list[int]] = {}
        self._copyable = True
        self._resets = _Watch()
        self._restores = _Watch()

    def start(self, seeds: Sequence[int], reuse: bool) -> tuple[list[int], list[Transition | ProgramFault]]:
        """Begin an episode for each seed; return their slots and first results.

        Args:
            seeds: One for each episode.
            reuse: Restore save points where there are any, and make some where not.
        """
        slots: list[int] = []
        answers: list[Transition | ProgramFault] = []
        fresh: list[int] = []
        for seed in seeds:
            restored = self._restore(seed) if reuse else None
            if restored is None:
                fresh.append(len(slots))
                slots.append(self._plain.pop() if self._plain else self._session.open())
                answers.append(ProgramFault("not reset"))
            else:
                slots.append(restored[0])
                answers.append(restored[1])
        begin = time.perf_counter()
        results = self._session.reset_many([(slots[i], seeds[i]) for i in fresh])
        self._resets.add(time.perf_counter() - begin, len(fresh))
        for i, result in zip(fresh, results, strict=True):
            answers[i] = result
            if reuse and self._copyable and isinstance(result, Transition) and len(self._saved) < _MAX_SAVED:
                self._save(slots[i], seeds[i], result)
        return slots, answers

    def release(self, slots: Sequence[int]) -> None:
        """Take slots back."""
        for slot in slots:
            if slot in self._saved:
                self._free.setdefault(self._saved[slot].seed, []).append(slot)
            else:
                self._plain.append(slot)

    def _save(self, slot: int, seed: int, first: Transition) -> None:
        try:
            snapshot = self._session.snapshot(slot)
        except ProgramFault:
            return
        if snapshot.copy is not None:
            self._saved[slot] = _Saved(seed, snapshot, first)
        else:
            self._copyable = False  # a replay is no faster than a reset

    def _restore(self, seed: int) -> tuple[int, Transition] | None:
        free = self._free.get(seed)
        slow = self._restores.count >= _NUM_TIMED and self._restores.mean > self._resets.mean > 0
        if not free or slow:
            self._copyable = self._copyable and not slow
            return None
        slot = free.pop()
        saved = self._saved[slot]
        begin = time.perf_counter()
        try:
            self._session.restore(slot, saved.snapshot)
            self._restores.add(time.perf_counter() - begin, 1)
        except ProgramFault:
            del self._saved[slot]
            self._plain.append(slot)
            return None
        return slot, saved.first
