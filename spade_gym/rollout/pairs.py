"""Which plays count when two arms are compared? A fault takes its counterpart in the other arm with it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from spade_gym.rollout.play import Play
from spade_gym.types import Status


class Dropped(NamedTuple):
    """A play that does not count.

    Attributes:
        key: The play's.
        cause: Key of the faulty play: its own, or that of its counterpart.
        status: Of the faulty play.
        fault: What failed there.
    """

    key: str
    cause: str
    status: Status
    fault: str


class Paired(NamedTuple):
    """Plays sorted out.

    Attributes:
        kept: Plays that count, in the order in which they were given.
        dropped: The others, in the same order.
    """

    kept: list[Play]
    dropped: list[Dropped]


def paired_out(plays: Iterable[Play]) -> Paired:
    """Drop faulty plays, and of both arms alike: the counterpart of a faulty play is dropped too.

    Counterparts are plays of the same program, instance and repetition in the other arm; the repetition is what follows
    the last ``/`` of a play's key. A play without a counterpart (an arm with fewer plays) counts if it is not faulty.
    Otherwise the arm that fails more often would be judged by its easier plays alone.

    Source: method, sections 6 and 10.
    """
    rows = list(plays)
    faulty: dict[tuple[str, int, str], Play] = {}
    for play in rows:
        if play.status != "ok":
            faulty.setdefault(_pair(play), play)
    kept: list[Play] = []
    dropped: list[Dropped] = []
    for play in rows:
        cause = play if play.status != "ok" else faulty.get(_pair(play))
        if cause is None:
            kept.append(play)
        else:
            dropped.append(Dropped(play.key, cause.key, cause.status, cause.fault))
    return Paired(kept, dropped)


def _pair(play: Play) -> tuple[str, int, str]:
    return play.digest, play.seed, play.key.rpartition("/")[2]
