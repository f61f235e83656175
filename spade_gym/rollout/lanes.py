"""The programs that are being played: one worker each, shared by all plays of the program.

A lane is a program's session and its slots. Lanes are opened when an order needs them and closed when nobody plays
their program any more; there are never more than the limit says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from spade_gym.errors import ProgramFault
from spade_gym.programs.program import Program
from spade_gym.sandbox.base import Isolation, Limits
from spade_gym.sandbox.session import Session
from spade_gym.types import Transition

#: What tells programs apart that need different workers: their hints do not.
_Key = tuple[str, str, str]


class Lane:
    """One program's session.

    Attributes:
        session: The session.
        num_plays: Plays that are under way in it.
        free: Slots that may be reset for another play.
    """

    __slots__ = ("free", "num_plays", "session")

    def __init__(self, session: Session) -> None:
        self.session = session
        self.num_plays = 0
        self.free: list[int] = []


class Place(NamedTuple):
    """Where a play takes place: a slot of a lane."""

    lane: Lane
    slot: int


class Lanes:
    """All lanes of a rollout.

    Args:
        max_sessions: Most sessions (worker processes) at a time.
        isolation: As for ``Session``.
        limits: What programs may use.
    """

    def __init__(self, max_sessions: int, isolation: Isolation | int | str | None, limits: Limits) -> None:
        self._max_sessions = max_sessions
        self._isolation = isolation
        self._limits = limits
        self._lanes: dict[_Key, Lane] = {}

    def seat(self, program: Program) -> Place | None:
        """Return a place for a play of a program; ``None`` while all sessions are taken by others."""
        key = (program.digest, program.manifest.class_name, repr(sorted(program.manifest.kwargs.items())))
        lane = self._lanes.get(key)
        if lane is None:
            if len(self._lanes) >= self._max_sessions and not self._close_one():
                return None
            session = Session(program, isolation=self._isolation, limits=self._limits)
            lane = self._lanes[key] = Lane(session)
        lane.num_plays += 1
        return Place(lane, lane.free.pop() if lane.free else lane.session.open())

    def leave(self, place: Place) -> None:
        """Give a place back; its slot is used again."""
        place.lane.num_plays -= 1
        place.lane.free.append(place.slot)

    def close_idle(self) -> None:
        """End the sessions that nobody uses."""
        while self._close_one():
            pass

    def _close_one(self) -> bool:
        key = next((key for key, lane in self._lanes.items() if lane.num_plays == 0), None)
        if key is not None:
            self._lanes.pop(key).session.close()
        return key is not None

    def close(self) -> None:
        """End all sessions."""
        while self._lanes:
            self._lanes.popitem()[1].session.close()


class Exchange:
    """Resets or steps under way in many places: one message a lane, and the workers run side by side.

    What the rollout has to do anyway it does between the beginning and ``finish``.

    Args:
        operation: ``reset`` or ``step``.
        items: (place, seed or action) pairs.
    """

    def __init__(self, operation: str, items: Sequence[tuple[Place, Any]]) -> None:
        self._num_items = len(items)
        self._shares: dict[Lane, list[int]] = {}
        for position, (place, _) in enumerate(items):
            self._shares.setdefault(place.lane, []).append(position)
        if operation == "reset":
            for lane in self._shares:
                lane.session.summon()
        for lane, share in self._shares.items():
            lane.session.begin(operation, [(items[position][0].slot, items[position][1]) for position in share])

    def finish(self) -> list[Transition | ProgramFault]:
        """Wait for the workers; return one result an item, in their order."""
        if len(self._shares) == 1:
            return next(iter(self._shares)).session.finish().transitions()
        results: list[Transition | ProgramFault | None] = [None] * self._num_items
        for lane, share in self._shares.items():
            for position, result in zip(share, lane.session.finish().transitions(), strict=True):
                results[position] = result
        return [result for result in results if result is not None]
