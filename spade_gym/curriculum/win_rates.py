"""How often is a task won, how sure is that, and is the number what it seems to be?"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from spade_gym.curriculum.by_window import latest
from spade_gym.curriculum.finite import finite
from spade_gym.curriculum.outcomes import Outcomes
from spade_gym.curriculum.score import Unknown

#: Two-sided 95 % of the normal distribution.
Z95 = 1.959963984540054
_SAME_PARTIAL_SHARE = 0.5


class WinRate(NamedTuple):
    """How a task went, over its plays without the hint.

    Attributes:
        share: Of plays won, in [0, 1].
        low: Lower end of its Wilson interval.
        high: Upper end of its Wilson interval.
        mean_return: Mean return, in the family's range (the ``paper-*`` recipes' win rate).
        n: Number of plays.
        constant_return: The partial return that more than half of the plays got, or ``None``. A program that
            always pays 0.5 would otherwise earn the whole plateau by its mean return.
    """

    share: float
    low: float
    high: float
    mean_return: float
    n: int
    constant_return: float | None


def wilson_interval(wins: float, num_plays: int, *, z: float = Z95) -> tuple[float, float]:
    """Return the Wilson score interval of a win rate, a part of [0, 1]; (0, 1) of no plays.

    Formula: (p̂ + z²/2n ± z·sqrt(p̂(1 − p̂)/n + z²/4n²)) / (1 + z²/n).

    Args:
        wins: Number of plays won, 0 to ``num_plays``.
        num_plays: Number of plays n.
        z: Normal quantile; the default gives 95 %.

    Raises:
        ValueError: ``wins`` or ``num_plays`` or ``z`` is out of range.

    Source: Wilson 1927; Brown, Cai and DasGupta 2001, equation 4.
    """
    if not 0 <= wins <= num_plays:
        raise ValueError(f"wins must be from 0 to num_plays, got {wins} of {num_plays}")
    if not z > 0:
        raise ValueError(f"z must be greater than 0, got {z!r}")
    if num_plays == 0:
        return 0.0, 1.0
    share, grown = wins / num_plays, 1 + z * z / num_plays
    centre = (share + z * z / (2 * num_plays)) / grown
    half = z / grown * math.sqrt(share * (1 - share) / num_plays + z * z / (4 * num_plays**2))
    low = 0.0 if wins == 0 else max(0.0, centre - half)
    return low, 1.0 if wins == num_plays else min(1.0, centre + half)


def win_rate(outcomes: Outcomes, *, num_windows: int | None = None, z: float = Z95) -> WinRate | Unknown:
    """Return the win rate of the plays without the hint.

    Args:
        outcomes: Plays of one task; hinted ones are left out.
        num_windows: Only the last so many windows; ``None`` takes all.
        z: Normal quantile of the interval.

    Raises:
        ValueError: A return is not finite, or a setting is out of range.

    Source: method, sections 5 and 6.
    """
    plays = latest(outcomes.plain, num_windows)
    n = len(plays)
    if n == 0:
        return Unknown("no plays without the hint")
    returns = finite("returns", plays.returns)
    won = int(plays.wins.sum())
    low, high = wilson_interval(won, n, z=z)
    return WinRate(won / n, low, high, float(returns.mean()), n, _constant_partial(returns))


def _constant_partial(returns: np.ndarray) -> float | None:
    values, counts = np.unique(returns.round(9), return_counts=True)
    most = int(counts.argmax())
    partial = 0.0 < values[most] < 1.0
    return float(values[most]) if partial and counts[most] > _SAME_PARTIAL_SHARE * len(returns) else None
