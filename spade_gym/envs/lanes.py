"""How the instances of a vector environment are spread over workers, and when more workers are worth it."""

from __future__ import annotations

import os

from spade_gym.errors import ProgramFault
from spade_gym.sandbox.session import Session

#: A batch of steps that takes longer than this many seconds is slow: beside it, the cost of a further worker is small.
SLOW_SECONDS = 0.002
_SLOW_BATCHES = 3
_LEAST_INSTANCES = 8


class Lane:
    """The instances that one worker plays.

    Attributes:
        session: The worker's session.
        indices: Their places in the vector.
        slots: Their slots in the session, in the same order.
        slot_of: Slots by place.
    """

    def __init__(self, session: Session, slot_of: dict[int, int]) -> None:
        self.session = session
        self.slot_of = slot_of
        self.settle()

    @classmethod
    def opened(cls, session: Session, indices: list[int]) -> Lane:
        """A lane with new instances, still to be reset, for these places."""
        return cls(session, {index: session.open() for index in indices})

    def settle(self) -> None:
        """Bring the orders of places and slots into line with ``slot_of``."""
        self.indices = sorted(self.slot_of)
        self.slots = [self.slot_of[index] for index in self.indices]

    def split(self, session: Session) -> tuple[Lane, Lane] | None:
        """Two lanes in the place of this one: every other instance goes to another worker, where its past is replayed.

        Args:
            session: A session of the same program without instances.

        Returns:
            The two; this one is not changed. ``None`` where a replay failed.
        """
        other = Lane.opened(session, self.indices[1::2])
        try:
            for index, slot in other.slot_of.items():
                past = self.session.past(self.slot_of[index])
                if past is not None:
                    session.restore(slot, past)
        except ProgramFault:
            session.close()
            return None
        return Lane(self.session, {index: self.slot_of[index] for index in self.indices[::2]}), other


class Pace:
    """Notices slow steps: several slow batches in a row, where processor cores are left for more workers."""

    def __init__(self) -> None:
        self._num_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._num_slow = 0

    def wants_more(self, seconds: float, lanes: list[Lane]) -> bool:
        """Whether a lane should be split now.

        Args:
            seconds: How long the last batch took.
            lanes: The present lanes.
        """
        self._num_slow = self._num_slow + 1 if seconds > SLOW_SECONDS else 0
        if self._num_slow < _SLOW_BATCHES or len(lanes) >= self._num_cores:
            return False
        self._num_slow = 0
        return max(len(lane.indices) for lane in lanes) >= _LEAST_INSTANCES
