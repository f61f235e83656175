"""What was measured window by window: means, counts, and the spread of the plays within."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from spade_gym.curriculum.finite import Floats, finite
from spade_gym.curriculum.outcomes import Outcomes

#: What a play is measured by: its return, or whether it was won (1 or 0).
Measure = Literal["return", "win"]


class Windows(NamedTuple):
    """Plays grouped by the window in which they were played, oldest window first.

    Attributes:
        numbers: (w,) number of each window.
        means: (w,) mean measure of its plays.
        num_plays: (w,) how many plays it holds, at least 1 each.
        variance: Of one play around its window's mean, pooled over windows (the unbiased estimate);
            ``None`` while no window holds two plays.
    """

    numbers: npt.NDArray[np.int64]
    means: Floats
    num_plays: npt.NDArray[np.int64]
    variance: float | None


def measured(outcomes: Outcomes, of: Measure) -> Floats:
    """Return the measure of each play, (n,).

    Raises:
        ValueError: ``of`` is neither ``return`` nor ``win``, or a return is not finite.
    """
    if of == "return":
        return finite("returns", outcomes.returns)
    if of == "win":
        return outcomes.wins.astype(np.float64)
    raise ValueError(f"a play is measured by 'return' or 'win', got {of!r}")


def plain_values(outcomes: Outcomes, of: Measure, *, num_windows: int | None = None) -> Floats:
    """Return the measures of the plays without the hint, (n,), oldest first.

    Args:
        outcomes: Plays of one task.
        of: What a play is measured by.
        num_windows: Only the last so many windows; ``None`` takes all.

    Raises:
        ValueError: As :func:`measured` and :func:`latest`.
    """
    if num_windows is not None:
        return measured(latest(outcomes.plain, num_windows), of)
    return measured(outcomes, of)[~outcomes.hinted]


def by_window(outcomes: Outcomes, *, of: Measure = "return") -> Windows:
    """Group plays by window; of no plays, no windows.

    Raises:
        ValueError: As :func:`measured`.
    """
    values = measured(outcomes, of)
    numbers, inverse, counts = np.unique(outcomes.windows, return_inverse=True, return_counts=True)
    sums = np.bincount(inverse, weights=values, minlength=len(numbers))
    means = sums / np.maximum(counts, 1)
    freedom = len(values) - len(numbers)
    variance = float(((values - means[inverse]) ** 2).sum() / freedom) if freedom > 0 else None
    return Windows(numbers.astype(np.int64), means, counts.astype(np.int64), variance)


def latest(outcomes: Outcomes, num_windows: int | None) -> Outcomes:
    """Return the plays of the last ``num_windows`` windows that have any; all of them for ``None``.

    Raises:
        ValueError: ``num_windows`` is less than 1.
    """
    if num_windows is None:
        return outcomes
    if num_windows < 1:
        raise ValueError(f"num_windows must be at least 1 or None, got {num_windows}")
    numbers = np.unique(outcomes.windows)
    return outcomes.select(np.isin(outcomes.windows, numbers[-num_windows:]))
