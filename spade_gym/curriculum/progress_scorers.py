"""Is the player getting better (or worse) at a task? Slopes and differences of its results over time.

All look only at plays without the hint.
"""

from __future__ import annotations

import math

import numpy as np

from spade_gym.curriculum.by_window import Measure, by_window, latest, plain_values
from spade_gym.curriculum.finite import Floats
from spade_gym.curriculum.outcomes import Outcomes
from spade_gym.curriculum.paired_difference import unpaired_difference
from spade_gym.curriculum.score import Score, Unknown


def absolute_learning_progress(outcomes: Outcomes, *, num_plays: int = 20, of: Measure = "return") -> Score | Unknown:
    """Absolute difference between the newer and the older half of the last plays.

    Formula: |mean of the last m plays − mean of the m before|, m = min(num_plays, n) // 2; the middle play of
    an odd number goes out. Range: [0, r] for returns in a range of length r. Standard error: Welch's, of the
    signed difference; none for m = 1.

    Args:
        outcomes: Plays of one task.
        num_plays: Newest plays that count, at least 2; 2 is the difference of two successive plays.
        of: What a play is measured by.

    Raises:
        ValueError: A return is not finite, or ``num_plays`` is below 2.

    Source: Portelas et al. 2019 (ALP, m = 1); Colas et al. 2019 (CURIOUS, section 3.4) for windows.
    """
    if num_plays < 2:
        raise ValueError(f"num_plays must be at least 2, got {num_plays}")
    values = plain_values(outcomes, of)
    half = min(num_plays, len(values)) // 2
    if not half:
        return Unknown("progress needs two plays without the hint", len(values))
    newest = values[-num_plays:]
    found = unpaired_difference(newest[-half:], newest[:half])
    return Score(abs(found.mean), found.standard_error, 2 * half)


def tscl_slope(outcomes: Outcomes, *, num_plays: int = 10, of: Measure = "return") -> Score | Unknown:
    """Slope of a straight line through the last plays' results, per play (signed).

    Formula: least squares of y_t on t = 0, 1, …, k − 1. Range: [−r, r] per play for returns in a range of
    length r. Standard error: sqrt(Σ residual² / (k − 2) / Σ (t − mean t)²); none for k = 2.

    Args:
        outcomes: Plays of one task, oldest first.
        num_plays: Newest plays that count (k), at least 2.
        of: What a play is measured by.

    Raises:
        ValueError: A return is not finite, or ``num_plays`` is below 2.

    Source: Matiisen et al. 2017 (TSCL, the Window algorithm; its sampler takes the absolute value).
    """
    if num_plays < 2:
        raise ValueError(f"num_plays must be at least 2, got {num_plays}")
    values = plain_values(outcomes, of)[-num_plays:]
    n = len(values)
    if n < 2:
        return Unknown("a slope needs two plays without the hint", n)
    slope, residuals, spread = _line(np.arange(n, dtype=np.float64), values, np.ones(n))
    error = math.sqrt(float((residuals**2).sum()) / (n - 2) / spread) if n > 2 else None
    return Score(slope, error, n)


def micro_progress(outcomes: Outcomes, *, num_windows: int | None = None, of: Measure = "return") -> Score | Unknown:
    """Weighted least-squares slope of the windows' means, over the whole stretch of windows (signed).

    Formula: with x the window's number scaled so that the first is 0 and the last 1, y its mean and w its plays,
    Σ w (x − x̄)(y − ȳ) / Σ w (x − x̄)², means weighted by w. So it is the change from the first window to the
    last. Range: ±1.5 r with equal weights and returns in a range of length r, more with unequal ones. Standard
    error: sqrt(s² / Σ w (x − x̄)²) with s² the variance of a play within its window; none while every window
    holds one play.

    Args:
        outcomes: Plays of one task.
        num_windows: Only the last so many windows; ``None`` takes all.
        of: What a play is measured by.

    Raises:
        ValueError: A return is not finite, or ``num_windows`` is below 1.

    Source: method, section 5 (*micro learning progress*); the scale of x from the reference's values.
    """
    windows = by_window(latest(outcomes.plain, num_windows), of=of)
    total = int(windows.num_plays.sum())
    if len(windows.numbers) < 2:
        return Unknown(f"a slope needs plays in two windows, there are {len(windows.numbers)}", total)
    x = (windows.numbers - windows.numbers[0]) / (windows.numbers[-1] - windows.numbers[0])
    slope, _, spread = _line(x, windows.means, windows.num_plays.astype(np.float64))
    error = None if windows.variance is None else math.sqrt(windows.variance / spread)
    return Score(slope, error, total)


def _line(x: Floats, y: Floats, weights: Floats) -> tuple[float, Floats, float]:
    """Slope, residuals and Σ w (x − x̄)² of a weighted least-squares line."""
    x, y = x - np.average(x, weights=weights), y - np.average(y, weights=weights)
    spread = float((weights * x * x).sum())
    slope = float((weights * x * y).sum()) / spread
    return slope, y - slope * x, spread
