"""Which prompts begin like something that was read before, so that their beginning need not be read again.

The next turn of a chat begins with all of its earlier turns, and plays of one program begin with the same rules. The
keys and values of rows that have left are kept here, the least recently used go first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from spade_gym.models.slot_cache import Columns

#: Shorter common beginnings are not worth a copy.
MIN_SHARED = 16


class _Kept(NamedTuple):
    ids: list[int]
    columns: Columns


def shared(first: Sequence[int], second: Sequence[int]) -> int:
    """Return how many ids two lists have in common at their beginnings; 0 when fewer than ``MIN_SHARED``."""
    if first[:MIN_SHARED] != second[:MIN_SHARED]:
        return 0
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if first[low:middle] == second[low:middle] else (low, middle - 1)
    return low if low >= MIN_SHARED else 0


class PrefixStore:
    """Keys and values of rows that have left.

    Args:
        max_tokens: Most tokens kept, over all of them; 0 keeps none.
    """

    def __init__(self, max_tokens: int) -> None:
        self.max_tokens = max_tokens
        self._kept: list[_Kept] = []  # the least recently used first

    def longest(self, ids: Sequence[int]) -> tuple[int, Columns | None]:
        """Return how much of a prompt is known, and the columns that hold it."""
        best, place = 0, -1
        for number, kept in enumerate(self._kept):
            length = shared(ids, kept.ids)
            if length > best:
                best, place = length, number
        if place < 0:
            return 0, None
        self._kept.append(self._kept.pop(place))
        return best, self._kept[-1].columns

    def wants(self, num_tokens: int) -> bool:
        """Tell whether a row of so many tokens would be kept."""
        return MIN_SHARED <= num_tokens <= self.max_tokens

    def keep(self, ids: list[int], columns: Columns) -> None:
        """Keep a row; what it contains as its own beginning goes."""
        self._kept = [kept for kept in self._kept if ids[: len(kept.ids)] != kept.ids]
        self._kept.append(_Kept(ids, columns))
        total = sum(len(kept.ids) for kept in self._kept)
        while total > self.max_tokens:
            total -= len(self._kept.pop(0).ids)

    def clear(self) -> None:
        """Forget everything: the weights have changed."""
        self._kept.clear()
