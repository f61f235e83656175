"""How far are recent results from older ones, by exponential moving averages? One step of an average a window.

Every average here steps as new = rate · x + (1 − rate) · old and starts at the first window's mean, unless a
starting value is given. All look only at plays without the hint.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from spade_gym.curriculum.by_window import Measure, Windows, by_window
from spade_gym.curriculum.finite import Floats, column, finite, within
from spade_gym.curriculum.outcomes import Outcomes
from spade_gym.curriculum.score import Score, Unknown

FAST_RATE, SLOW_RATE = 0.98, 0.85
OMNI_RATE, OMNI_THETA, OMNI_QUANTILE = 0.1, 0.1, 0.9


def moving_average(values: npt.ArrayLike, *, rate: float, initial: float | None = None) -> Floats:
    """Return the average after each value, (n,): new = rate · x + (1 − rate) · old.

    Args:
        values: (n,) oldest first.
        rate: Weight of the new value, in [0, 1].
        initial: Average before the first value; ``None`` starts at the first value itself.

    Raises:
        ValueError: A value is not finite, or ``rate`` is out of range.

    Source: method, section 5.
    """
    within("rate", rate, 0.0, 1.0)
    x = column("values", values)
    averages = np.empty_like(x)
    old = None if initial is None else float(finite("initial", initial))
    for i, value in enumerate(x):
        old = float(value) if old is None else rate * float(value) + (1 - rate) * old
        averages[i] = old
    return averages


def learning_potential(
    outcomes: Outcomes, *, rate: float = SLOW_RATE, initial: float | None = None, of: Measure = "return"
) -> Score | Unknown:
    """Distance between the last window's mean and the slow average that includes it.

    Formula: |mean score − slow average|, the average being updated with the window first: so it is
    (1 − rate) · |mean − old average|. Range: [0, (1 − rate) · r] for returns in a range of length r. Standard
    error: of the signed difference, from the spread of plays within windows; none where there is no such spread.

    Args:
        outcomes: Plays of one task.
        rate: γ of the slow average.
        initial: Its value before the first window; ``None`` starts at the first window's mean.
        of: What a play is measured by.

    Returns:
        The score, or unknown with no window, or with one and no ``initial``.

    Raises:
        ValueError: A return is not finite, or ``rate`` is out of range.

    Source: method, section 5 (after Kanitscheider et al. 2021 and Zhang et al. 2023).
    """
    windows = by_window(outcomes.plain, of=of)
    missing = _lacks_past(windows, initial)
    if missing is not None:
        return missing
    weights = -_weights(len(windows.numbers), rate, initial)
    weights[-1] += 1
    slow = float(moving_average(windows.means, rate=rate, initial=initial)[-1])
    return _absolute(float(windows.means[-1]) - slow, weights, windows)


def frontier_bonus(
    outcomes: Outcomes,
    *,
    fast_rate: float = FAST_RATE,
    slow_rate: float = SLOW_RATE,
    initial: float | None = None,
    of: Measure = "return",
) -> Score | Unknown:
    """Distance between a fast and a slow average of the windows' means.

    Formula: |fast − slow|. Range: [0, r] for returns in a range of length r. Standard error: of the signed
    difference, from the spread of plays within windows; none where there is no such spread.

    Args:
        outcomes: Plays of one task.
        fast_rate: γ of the fast average.
        slow_rate: γ of the slow average.
        initial: Both averages before the first window; ``None`` starts at the first window's mean.
        of: What a play is measured by.

    Returns:
        The score, or unknown with no window, or with one and no ``initial``.

    Raises:
        ValueError: A return is not finite, or a rate is out of range.

    Source: method, section 5.
    """
    windows = by_window(outcomes.plain, of=of)
    missing = _lacks_past(windows, initial)
    if missing is not None:
        return missing
    num = len(windows.numbers)
    fast = float(moving_average(windows.means, rate=fast_rate, initial=initial)[-1])
    slow = float(moving_average(windows.means, rate=slow_rate, initial=initial)[-1])
    return _absolute(fast - slow, _weights(num, fast_rate, initial) - _weights(num, slow_rate, initial), windows)


def omni_progress(
    outcomes: Outcomes,
    *,
    rate: float = OMNI_RATE,
    theta: float = OMNI_THETA,
    random_rate: float = 0.0,
    initial: float | None = None,
) -> Score | Unknown:
    """Bidirectional learning progress of the win rate, reweighted towards low win rates.

    Formula: with q = max(p − p_random, 0) / (1 − p_random) each window's normalised win rate, fast its average and
    slow the average of fast (both of the same rate), |f(fast) − f(slow)|, where
    f(p) = (1 − θ) p / (p + θ (1 − 2 p)). Range: [0, 1]. Standard error: none.

    Args:
        outcomes: Plays of one task.
        rate: Weight of the new value in both averages.
        theta: θ in (0, 1); f(θ) = 1/2, and 1/2 leaves win rates as they are.
        random_rate: Win rate of a random player, in [0, 1).
        initial: Both averages before the first window; ``None`` starts at the first window's rate.

    Returns:
        The score, or unknown with no window, or with one and no ``initial``.

    Raises:
        ValueError: A setting is out of range.

    Source: Kanitscheider et al. 2021, section 3; Zhang et al. 2023 (OMNI), section 3.1.
    """
    within("random_rate", random_rate, 0.0, 1.0 - 1e-9)
    windows = by_window(outcomes.plain, of="win")
    missing = _lacks_past(windows, initial)
    if missing is not None:
        return missing
    rates = np.maximum(windows.means - random_rate, 0.0) / (1 - random_rate)
    fast = moving_average(rates, rate=rate, initial=initial)
    slow = moving_average(fast, rate=rate, initial=initial)
    value = abs(reweighted(float(fast[-1]), theta=theta) - reweighted(float(slow[-1]), theta=theta))
    return Score(value, None, int(windows.num_plays.sum()))


def reweighted(rate: float, *, theta: float = OMNI_THETA) -> float:
    """Return f(p) = (1 − θ) p / (p + θ (1 − 2 p)): grows from 0 to 1, with f(θ) = 1/2.

    Raises:
        ValueError: ``rate`` is not in [0, 1], or ``theta`` not in (0, 1).

    Source: Kanitscheider et al. 2021, equation 2.
    """
    within("rate", rate, 0.0, 1.0)
    within("theta", theta, 1e-9, 1 - 1e-9)
    return (1 - theta) * rate / (rate + theta * (1 - 2 * rate))


def progress_distribution(values: npt.ArrayLike, *, quantile: float = OMNI_QUANTILE) -> Floats:
    """Return the probabilities with which tasks are sampled for their learning progress.

    Formula: z-scores (population deviation) through a sigmoid that is centred on the normal quantile, normalised
    to sum 1. Equal values give equal probabilities.

    Args:
        values: (m,) learning progress of each task, m at least 1.
        quantile: Where the sigmoid is 1/2, in (0, 1); 0.5 leaves the z-scores uncentred.

    Raises:
        ValueError: There is no value, one is not finite, or ``quantile`` is out of range.

    Source: Kanitscheider et al. 2021, section 3 (quantile 0.9).
    """
    within("quantile", quantile, 1e-9, 1 - 1e-9)
    progress = column("values", values)
    if not len(progress):
        raise ValueError("values must hold at least one task's learning progress, got none")
    deviation = float(progress.std())
    scores = (progress - progress.mean()) / deviation if deviation > 0 else np.zeros_like(progress)
    weights = 1 / (1 + np.exp(NormalDist().inv_cdf(quantile) - scores))
    probabilities: Floats = weights / weights.sum()
    return probabilities


def _lacks_past(windows: Windows, initial: float | None) -> Unknown | None:
    if not len(windows.numbers):
        return Unknown("no plays without the hint")
    if len(windows.numbers) == 1 and initial is None:
        reason = "one window has no past to compare with; play another or give 'initial'"
        return Unknown(reason, int(windows.num_plays[0]))
    return None


def _weights(num: int, rate: float, initial: float | None) -> Floats:
    """Weight of each of ``num`` values in their moving average."""
    weights: Floats = rate * (1 - rate) ** np.arange(num - 1, -1, -1, dtype=np.float64)
    if initial is None:
        weights[0] = (1 - rate) ** (num - 1)
    return weights


def _absolute(difference: float, weights: Floats, windows: Windows) -> Score:
    error = None
    if windows.variance is not None:
        error = math.sqrt(float((weights**2 * windows.variance / windows.num_plays).sum()))
    return Score(abs(difference), error, int(windows.num_plays.sum()))
