"""What samples begin with alike is computed once: plays of one program share their prompt, and often their first turns.

Sequences become a tree of segments. A segment's tokens see those of the segments above it and the earlier ones of its
own, so what is computed, and its gradient, is what each sequence gives alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Segment(NamedTuple):
    """Tokens in one piece.

    Attributes:
        ids: At least one token.
        above: Indices of the segments that come before it in its sequences, from the root on.
        depth: Tokens in those.
    """

    ids: tuple[int, ...]
    above: tuple[int, ...]
    depth: int


class Tree(NamedTuple):
    """Sequences as segments.

    Attributes:
        segments: Each after those above it.
        paths: Of each sequence in the order given: indices of the segments that make it up.
    """

    segments: tuple[Segment, ...]
    paths: tuple[tuple[int, ...], ...]

    @property
    def num_tokens(self) -> int:
        """Tokens to be computed."""
        return sum(len(segment.ids) for segment in self.segments)


def shared_length(one: Sequence[int], other: Sequence[int]) -> int:
    """Count the tokens with which two sequences begin alike."""
    most = min(len(one), len(other))
    if one[:most] == other[:most]:
        return most
    return next(place for place in range(most) if one[place] != other[place])


def tree_of(sequences: Sequence[tuple[int, ...]], least: int) -> Tree:
    """Return sequences as a tree.

    Args:
        sequences: Each with at least one token.
        least: Shortest beginning that is shared; a shorter one is repeated, since a segment has a cost of its own. 0:
            nothing is shared.
    """
    segments: list[Segment] = []
    paths: dict[int, tuple[int, ...]] = {}

    def grow(ids: tuple[int, ...], above: tuple[int, ...], depth: int) -> tuple[int, ...]:
        segments.append(Segment(ids, above, depth))
        return (*above, len(segments) - 1)

    order = sorted(range(len(sequences)), key=lambda number: sequences[number])
    waiting: list[tuple[list[int], tuple[int, ...], int]] = [(order, (), 0)] if order else []
    while waiting:
        mine, above, depth = waiting.pop()
        common = shared_length(sequences[mine[0]], sequences[mine[-1]])
        if len(mine) > 1 and least and common - depth >= least:
            above, depth = grow(sequences[mine[0]][depth:common], above, depth), common
        branches: dict[int, list[int]] = {}
        for number in mine:
            ids = sequences[number]
            if len(ids) == depth:
                paths[number] = above
            elif len(mine) == 1 or len(ids) == common or not least:
                paths[number] = grow(ids[depth:], above, depth)
            else:
                branches.setdefault(ids[common], []).append(number)
        waiting.extend((branch, above, depth) for branch in reversed(branches.values()))
    return Tree(tuple(segments), tuple(paths[number] for number in range(len(sequences))))
