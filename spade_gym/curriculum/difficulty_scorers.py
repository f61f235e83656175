"""Is a task neither too easy nor too hard for the player? Functions of its win rate, or of its returns' spread.

All look only at plays without the hint. p̂ is the share won of n plays.
"""

from __future__ import annotations

import math

import numpy as np

from spade_gym.curriculum.by_window import Measure, latest, plain_values
from spade_gym.curriculum.finite import at_least
from spade_gym.curriculum.outcomes import Outcomes
from spade_gym.curriculum.score import Score, Unknown

TARGET_VARIANCE, VARIANCE_WIDTH = 0.25, 0.02
_NOTHING = Unknown("no plays without the hint")


def learnability(outcomes: Outcomes, *, num_windows: int | None = None) -> Score | Unknown:
    """Variance of a win, with the win rate plugged in.

    Formula: p̂ (1 − p̂). Range: [0, 1/4]; on average (n − 1)/n of the true p (1 − p). Standard error: as of
    :func:`unbiased_learnability`, times (n − 1)/n; none for n = 1.

    Args:
        outcomes: Plays of one task.
        num_windows: Only the last so many windows; ``None`` takes all.

    Raises:
        ValueError: ``num_windows`` is below 1.

    Source: Rutherford et al. 2024 (SFL), equation 2; Tzannetos et al. 2023.
    """
    p, n = _share(outcomes, num_windows)
    if not n:
        return _NOTHING
    error = _variance_error(p, n)
    return Score(p * (1 - p), None if error is None else error * (n - 1) / n, n)


def unbiased_learnability(outcomes: Outcomes, *, num_windows: int | None = None) -> Score | Unknown:
    """Variance of a win, without the plug-in's bias.

    Formula: n/(n − 1) · p̂ (1 − p̂). Range: [0, n/(4 (n − 1))], so up to 1/2 for n = 2; its mean is p (1 − p).
    Standard error: sqrt((μ₄ − σ⁴ (n − 3)/(n − 1)) / n) with σ² = p̂ (1 − p̂) and μ₄ = σ² (1 − 3 σ²).

    Args:
        outcomes: Plays of one task.
        num_windows: Only the last so many windows; ``None`` takes all.

    Returns:
        The score, or unknown of fewer than two plays.

    Raises:
        ValueError: ``num_windows`` is below 1.

    Source: the unbiased variance of Bernoulli draws; its standard error as for any sample variance.
    """
    p, n = _share(outcomes, num_windows)
    if n < 2:
        return Unknown("an unbiased variance needs two plays without the hint", n)
    return Score(n / (n - 1) * p * (1 - p), _variance_error(p, n), n)


def return_variance(
    outcomes: Outcomes, *, num_plays: int | None = None, num_windows: int | None = None, of: Measure = "return"
) -> Score | Unknown:
    """Variance of the last plays' returns: learnability where plays are won or lost, progress where they are graded.

    Formula: s² = Σ (R − R̄)² / (n − 1). Of returns that are 0 or 1 it is n/(n − 1) · p̂ (1 − p̂), the unbiased
    learnability. A partial score that is always the same has variance 0, where p̂ (1 − p̂) of its mean would call it
    worth learning; one that grows has some. Range: [0, r² n/(4 (n − 1))] for returns in a range of length r. Standard
    error: sqrt((m₄ − m₂² (n − 3)/(n − 1)) / n) with m₂ and m₄ the mean second and fourth power of R − R̄.

    Args:
        outcomes: Plays of one task, oldest first.
        num_plays: Newest plays that count, at least 2; ``None`` takes all. As the player learns, old plays tell of
            another player.
        num_windows: Only the last so many windows; ``None`` takes all.
        of: What a play is measured by.

    Returns:
        The score, or unknown of fewer than two plays.

    Raises:
        ValueError: A return is not finite, ``num_plays`` is below 2, or ``num_windows`` below 1.

    Source: ours; after Rutherford et al. 2024 (SFL), equation 2, for wins.
    """
    if num_plays is not None and num_plays < 2:
        raise ValueError(f"num_plays must be at least 2 or None, got {num_plays}")
    values = plain_values(outcomes, of, num_windows=num_windows)
    if num_plays is not None:
        values = values[-num_plays:]
    n = len(values)
    if n < 2:
        return Unknown("a variance needs two plays without the hint", n)
    deviations = values - values.sum() / n
    squares = deviations * deviations
    plugged_in = float(squares.sum()) / n
    fourth = float(squares @ squares) / n
    error = math.sqrt(max(fourth - plugged_in**2 * (n - 3) / (n - 1), 0.0) / n)
    return Score(plugged_in * n / (n - 1), error, n)


def variance_target(
    outcomes: Outcomes,
    *,
    target: float = TARGET_VARIANCE,
    width: float = VARIANCE_WIDTH,
    of: Measure = "return",
    num_windows: int | None = None,
) -> Score | Unknown:
    """How near the variance of returns is to that of an even win-or-lose task.

    Formula: exp(−(Var − 0.25)² / 0.02) with the population variance (one play has variance 0). Range: (0, 1];
    0.0439 at variance 0. Standard error: none.

    Args:
        outcomes: Plays of one task.
        target: Variance with score 1.
        width: Denominator of the exponent, positive.
        of: What a play is measured by.
        num_windows: Only the last so many windows; ``None`` takes all.

    Raises:
        ValueError: A return is not finite, or a setting is out of range.

    Source: method, section 5.
    """
    at_least("target", target, 0.0)
    at_least("width", width, 0.0, strictly=True)
    values = plain_values(outcomes, of, num_windows=num_windows)
    if not len(values):
        return _NOTHING
    return Score(math.exp(-((float(values.var()) - target) ** 2) / width), None, len(values))


def azr_score(outcomes: Outcomes, *, num_windows: int | None = None) -> Score | Unknown:
    """The proposer's reward of Absolute Zero: the harder the better, but not unsolved.

    Formula: 1 − p̂, and 0 at p̂ = 0 (and so at 1). Range: [0, 1). Standard error: sqrt(p̂ (1 − p̂)/n) where p̂ is
    neither 0 nor 1, else none (the function jumps at 0).

    Args:
        outcomes: Plays of one task.
        num_windows: Only the last so many windows; ``None`` takes all.

    Raises:
        ValueError: ``num_windows`` is below 1.

    Source: Zhao et al. 2025 (AZR), equation 4. The 0 of an unsolved task is that formula's, not ignorance.
    """
    p, n = _share(outcomes, num_windows)
    if not n:
        return _NOTHING
    return Score(1 - p if p > 0 else 0.0, _share_error(p, n), n)


def rzero_score(outcomes: Outcomes, *, num_windows: int | None = None) -> Score | Unknown:
    """The challenger's reward of R-Zero: greatest at a win rate of one half.

    Formula: min(p̂, 1 − p̂), half of the paper's 1 − 2 |p̂ − 1/2|. Range: [0, 1/2]. Standard error:
    sqrt(p̂ (1 − p̂)/n) where p̂ is none of 0, 1/2 and 1, else none (the function has a corner there).

    Args:
        outcomes: Plays of one task.
        num_windows: Only the last so many windows; ``None`` takes all.

    Raises:
        ValueError: ``num_windows`` is below 1.

    Source: Huang et al. 2025 (R-Zero), section 3.2.
    """
    p, n = _share(outcomes, num_windows)
    if not n:
        return _NOTHING
    return Score(min(p, 1 - p), None if p == 0.5 else _share_error(p, n), n)


def instance_learnability(outcomes: Outcomes, *, num_windows: int | None = None) -> Score | Unknown:
    """Mean over instances of the variance of a win on that instance.

    Formula: mean over instances i with k_i ≥ 2 plays of k_i/(k_i − 1) · p̂_i (1 − p̂_i). Range: [0, 1/2]; its
    mean is that of p_i (1 − p_i), which is far below p (1 − p) where half of the instances are always won and
    half never. Standard error: of the mean over instances; none for one instance.

    Args:
        outcomes: Plays of one task, several on each instance seed.
        num_windows: Only the last so many windows; ``None`` takes all.

    Returns:
        The score, or unknown where no instance was played twice: one play of each cannot tell an even instance
        from a mixture of certain ones.

    Raises:
        ValueError: ``num_windows`` is below 1.

    Source: issue 3, point 3; method, section 5.
    """
    plays = latest(outcomes.plain, num_windows)
    _, inverse, counts = np.unique(plays.seeds, return_inverse=True, return_counts=True)
    twice = counts >= 2
    if not twice.any():
        return Unknown("no instance was played twice without the hint", len(plays))
    wins = np.bincount(inverse, weights=plays.wins.astype(np.float64))[twice]
    k = counts[twice].astype(np.float64)
    values = wins * (k - wins) / (k * (k - 1))
    error = float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else None
    return Score(float(values.mean()), error, int(k.sum()))


def _share(outcomes: Outcomes, num_windows: int | None) -> tuple[float, int]:
    wins = plain_values(outcomes, "win", num_windows=num_windows)
    return (float(wins.mean()), len(wins)) if len(wins) else (math.nan, 0)


def _share_error(p: float, n: int) -> float | None:
    return math.sqrt(p * (1 - p) / n) if 0 < p < 1 else None


def _variance_error(p: float, n: int) -> float | None:
    if n < 2:
        return None
    square = p * (1 - p)
    return math.sqrt(max(square * (1 - 3 * square) - square**2 * (n - 3) / (n - 1), 0.0) / n)
