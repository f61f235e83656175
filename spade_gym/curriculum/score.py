"""The result of a scorer: a number with its uncertainty, or an honest *unknown*."""

from __future__ import annotations

from typing import NamedTuple


class Score(NamedTuple):
    """A score of a task.

    Attributes:
        value: The score; its range stands at the scorer.
        standard_error: Of ``value``; ``None`` where the scorer has no formula for it.
        n: Number of plays behind it.
    """

    value: float
    standard_error: float | None
    n: int


class Unknown(NamedTuple):
    """No score can be given, and why. Never a zero.

    Attributes:
        reason: One clause for a table or an error.
        n: Number of plays that were there.
    """

    reason: str
    n: int = 0
