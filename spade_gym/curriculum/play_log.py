"""The last plays of one task, kept by column so that scorers get arrays without copying."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt

from spade_gym.curriculum.outcomes import Outcomes

_COLUMNS = tuple(item.name for item in fields(Outcomes))
_DTYPES = {"returns": np.float64, "wins": np.bool_, "hinted": np.bool_, "values": np.float64}
#: Plays without the hint that ``win_rate`` looks back on.
RECENT_PLAYS = 16


class Log:
    """The last plays of one task, as arrays that grow at the end and forget at the front.

    Args:
        size: How many plays are kept.

    Attributes:
        num_plays: Valid plays ever.
    """

    __slots__ = ("_columns", "_end", "_recent", "_size", "num_plays")

    def __init__(self, size: int) -> None:
        self._size = size
        self._end = 0
        self._columns: list[npt.NDArray[Any]] = [
            np.zeros(min(16, 2 * size), dtype=_DTYPES.get(name, np.int64)) for name in _COLUMNS
        ]
        self._recent: list[bool] = []
        self.num_plays = 0

    def append(self, *row: float) -> None:
        """Add a play: one number for each column of ``Outcomes``, in its order."""
        end = self._end
        if end == len(self._columns[0]):
            self._make_room()
            end = self._end
        for column, number in zip(self._columns, row, strict=True):
            column[end] = number
        self._end = end + 1
        self.num_plays += 1
        _, won, hinted, *_ = row
        if not hinted:
            self._recent.append(bool(won))
            del self._recent[:-RECENT_PLAYS]

    @property
    def win_rate(self) -> float:
        """Share won of the last 16 plays without the hint; NaN without any."""
        return sum(self._recent) / len(self._recent) if self._recent else float("nan")

    def _make_room(self) -> None:
        kept = min(self._size, self._end)
        capacity = len(self._columns[0])
        wanted = capacity if kept < self._end else min(2 * capacity, 2 * self._size)
        for place, column in enumerate(self._columns):
            fresh: npt.NDArray[Any] = np.zeros(wanted, dtype=column.dtype)
            fresh[:kept] = column[self._end - kept : self._end]
            self._columns[place] = fresh
        self._end = kept

    def outcomes(self) -> Outcomes:
        """The kept plays, oldest first; views, not copies."""
        kept = slice(max(0, self._end - self._size), self._end)
        return Outcomes(*[column[kept] for column in self._columns])

    def state_dict(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        data = self.outcomes()
        columns = {name: getattr(data, name).tolist() for name in _COLUMNS}
        columns["values"] = [None if number != number else number for number in columns["values"]]
        return {"num_plays": self.num_plays, "recent": list(self._recent), **columns}

    @classmethod
    def from_state(cls, state: dict[str, Any], size: int) -> Log:
        """Read what ``state_dict`` gave."""
        log = cls(size)
        if state["returns"]:
            log._columns = [np.array(state[name], dtype=_DTYPES.get(name, np.int64)) for name in _COLUMNS]
            log._end = len(state["returns"])
        log._recent = list(state["recent"])
        log.num_plays = state["num_plays"]
        return log
