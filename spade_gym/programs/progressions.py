"""Which commands lie between the ones that a text names with an ellipsis?"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

_NUMBER = re.compile(r"(?<![A-Za-z\d])-?\d{1,9}|\d{1,9}")


def shape_of(command: str) -> str:
    """Return a command with its numbers blanked: commands of one shape form a family."""
    return _NUMBER.sub("#", command)


def fill(before: str | None, first: str, last: str, limit: int) -> Iterator[str]:
    """Yield the commands after ``first`` up to ``last``, both of one shape.

    ``open 1 … open 3`` gives ``open 2`` and ``open 3``. With several numbers, ``before`` and ``first`` show the
    step: ``swap 1 2, swap 2 3, ..., swap 9 10``. Without it, equal distances in every number that changes are
    taken as a step of one, else as a grid (``1 1 … 3 3`` gives the diagonal; ``1 1 … 3 4`` all twelve). Single
    letters count like numbers: ``a ... f``. Nothing is yielded where no progression is evident.

    Args:
        before: The command before ``first``, or ``None``.
        first: The command before the ellipsis.
        last: The command after it.
        limit: At most so many are yielded.
    """
    if len(first) == len(last) == 1 and first.isalpha() and last.isalpha() and first < last:
        yield from (chr(code) for code in range(ord(first) + 1, min(ord(last), ord(first) + limit) + 1))
        return
    if shape_of(first) != shape_of(last):
        return
    start, end = _numbers(first), _numbers(last)
    step = _step(_numbers(before) if before is not None and shape_of(before) == shape_of(first) else None, start, end)
    if step is None:
        yield from _grid(first, start, end, limit)
        return
    lengths = {(b - a) // s for a, b, s in zip(start, end, step, strict=True) if s}
    exact = all(a + next(iter(lengths), 0) * s == b for a, b, s in zip(start, end, step, strict=True))
    if len(lengths) != 1 or not exact:
        return
    for turn in range(1, min(lengths.pop(), limit) + 1):
        yield _with_numbers(first, [a + turn * s for a, s in zip(start, step, strict=True)])


def is_gapless(family: Collection[str]) -> bool:
    """Whether the members of a family are evidently all: two or more, and numbered without a gap.

    Two numbered commands that do not follow each other (``probe 3``, ``probe 7``) are examples.
    """
    if len(family) < 2:
        return False
    columns = list(zip(*(_numbers(member) for member in family), strict=True))
    return all(set(range(min(column), max(column) + 1)) == set(column) for column in columns)


def _numbers(command: str) -> list[int]:
    return [int(item) for item in _NUMBER.findall(command)]


def _step(before: list[int] | None, start: list[int], end: list[int]) -> list[int] | None:
    """Return the step of a progression, or ``None`` when the numbers span a grid."""
    if before is not None and before != start:
        return [b - a for a, b in zip(before, start, strict=True)]
    distances = {b - a for a, b in zip(start, end, strict=True) if a != b}
    if len(distances) != 1:
        return None
    sign = 1 if distances.pop() > 0 else -1
    return [sign if a != b else 0 for a, b in zip(start, end, strict=True)]


def _grid(first: str, start: list[int], end: list[int], limit: int) -> Iterator[str]:
    """Yield the commands of a grid from ``start`` to ``end``, the last number running fastest."""
    sizes = [b - a + 1 for a, b in zip(start, end, strict=True)]
    total = 1
    for size in sizes:
        total *= max(size, 0)
    for index in range(1, min(total, limit + 1)):
        numbers: list[int] = []
        for low, size in zip(reversed(start), reversed(sizes), strict=True):
            index, offset = divmod(index, size)
            numbers.append(low + offset)
        yield _with_numbers(first, numbers[::-1])


def _with_numbers(command: str, numbers: list[int]) -> str:
    """Return a command with its numbers replaced in order."""
    values = iter(numbers)
    return _NUMBER.sub(lambda _match: str(next(values)), command)
