"""The last plays of one task, kept by column so that scorers get arrays without copying."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt

from spade_gym.curriculum.outcomes import Outcomes

_COLUMNS = tuple(item.name for item in fields(Outcomes))
_DTYPES = {"returns": np.float64, "wins": np.bool_, "hinted": np.bool_, "values": np.float64}


class Log:
    """The last plays of one task, as arrays that grow at the end and forget at the front.

    Args:
        size: How many plays are kept.
    """

    __slots__ = ("_columns", "_end", "_size", "num_plays")

    def __init__(self, size: int) -> None:
        self._size = size
        self._end = 0
        self._columns: dict[str, npt.NDArray[Any]] = {
            name: np.zeros(min(16, 2 * size), dtype=_DTYPES.get(name, np.int64)) for name in _COLUMNS
        }
        self.num_plays = 0

    def append(self, *row: float) -> None:
        """Add a play: one number for each column of ``Outcomes``, in its order."""
        if self._end == len(self._columns["returns"]):
            self._make_room()
        for column, number in zip(self._columns.values(), row, strict=True):
            column[self._end] = number
        self._end += 1
        self.num_plays += 1

    def _make_room(self) -> None:
        kept = min(self._size, self._end)
        capacity = len(self._columns["returns"])
        wanted = capacity if kept < self._end else min(2 * capacity, 2 * self._size)
        for name, column in self._columns.items():
            fresh = np.zeros(wanted, dtype=column.dtype)
            fresh[:kept] = column[self._end - kept : self._end]
            self._columns[name] = fresh
        self._end = kept

    def outcomes(self) -> Outcomes:
        """The kept plays, oldest first; views, not copies."""
        start = max(0, self._end - self._size)
        return Outcomes(*(self._columns[name][start : self._end] for name in _COLUMNS))

    def state_dict(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        data = self.outcomes()
        columns = {name: getattr(data, name).tolist() for name in _COLUMNS}
        columns["values"] = [None if number != number else number for number in columns["values"]]
        return {"num_plays": self.num_plays, **columns}

    @classmethod
    def from_state(cls, state: dict[str, Any], size: int) -> Log:
        """Read what ``state_dict`` gave."""
        log = cls(size)
        if state["returns"]:
            log._columns = {name: np.array(state[name], dtype=_DTYPES.get(name, np.int64)) for name in _COLUMNS}
            log._end = len(state["returns"])
        log.num_plays = state["num_plays"]
        return log
