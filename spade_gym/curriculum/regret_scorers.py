"""How much does a hint help? Hint regret: as published, on paired seeds, and shrunken across the pool."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal, NamedTuple

import numpy as np

from spade_gym.curriculum.by_window import Measure, measured
from spade_gym.curriculum.outcomes import Outcomes
from spade_gym.curriculum.paired_difference import Difference, paired_difference, unpaired_difference
from spade_gym.curriculum.score import Score, Unknown
from spade_gym.curriculum.shrinkage import HintPrior, fit_hint_prior, moderated_variances, pooled_variance

#: ``plain``: all plays of either arm, as published. ``paired``: only instances that both arms played.
Pairing = Literal["plain", "paired"]


class RegretPool(NamedTuple):
    """What the regrets of a whole pool say about any one of them.

    Attributes:
        prior: Distribution of the true regrets.
        variance: Of one play (``plain``) or of one pair's difference (``paired``).
        pairing: Of the estimates that it was fitted to; only such may be shrunken by it.
    """

    prior: HintPrior
    variance: float
    pairing: Pairing


def hint_regret(
    outcomes: Outcomes,
    *,
    pairing: Pairing = "plain",
    of: Measure = "return",
    window: int | None = None,
    pool: RegretPool | None = None,
) -> Score | Unknown:
    """Mean return with the hint minus mean return without, both at one window.

    Range: [−r, r] for returns in a range of length r. Standard error: Welch's (``plain``), of the mean pairwise
    difference (``paired``), or the posterior standard deviation (with ``pool``).

    Args:
        outcomes: Plays of one task.
        pairing: ``plain`` takes all plays, ``paired`` the instances that both arms played (common random
            numbers; an instance of which one arm has no valid play is out of both).
        of: What a play is measured by.
        window: The window (regeneration step) of both arms; ``None`` takes the last one with hinted plays.
        pool: Shrinks the estimate; see :func:`fit_regret_pool`.

    Returns:
        The signed regret, or unknown where an arm, or every pair, is missing. A missing arm is never a 0.

    Raises:
        ValueError: A return is not finite, or ``pool`` was fitted with another pairing.

    Source: method, section 5 (SPADE, arXiv:2608.19197).
    """
    if pool is not None and pool.pairing != pairing:
        raise ValueError(f"the pool was fitted to {pool.pairing} regrets, this one is {pairing}; fit it anew")
    found = _difference(outcomes, pairing, of, window)
    if isinstance(found, Unknown):
        return found
    if pool is None:
        return Score(found.mean, found.standard_error, found.num_plays)
    means, deviations = pool.prior.posterior([found.mean], [_moderated_error(found, pool.variance)])
    return Score(float(means[0]), float(deviations[0]), found.num_plays)


def fit_regret_pool(
    tasks: Iterable[Outcomes], *, pairing: Pairing = "paired", of: Measure = "return", window: int | None = None
) -> RegretPool | Unknown:
    """Learn from all tasks of a pool how regrets are spread and how noisy plays are.

    Args:
        tasks: Outcomes of each task; those without a regret take no part.
        pairing: As in :func:`hint_regret`.
        of: As in :func:`hint_regret`.
        window: As in :func:`hint_regret`.

    Raises:
        ValueError: A return is not finite.

    Source: method, section 5; :mod:`spade_gym.curriculum.shrinkage`.
    """
    found = [item for task in tasks if isinstance(item := _difference(task, pairing, of, window), Difference)]
    if not found:
        return Unknown("no task of the pool has a regret")
    variances = [variance for item in found for variance in item.variances]
    counts = [count for item in found for count in item.counts]
    variance = float(pooled_variance(variances, counts)[0])
    errors = [_moderated_error(item, variance) for item in found]
    return RegretPool(fit_hint_prior([item.mean for item in found], errors), variance, pairing)


def shrunken_regrets(
    tasks: Iterable[Outcomes], *, pairing: Pairing = "paired", of: Measure = "return", window: int | None = None
) -> tuple[Score | Unknown, ...]:
    """Regrets of all tasks of a pool, each shrunken by what the pool tells.

    Args:
        tasks: Outcomes of each task.
        pairing: As in :func:`hint_regret`.
        of: As in :func:`hint_regret`.
        window: As in :func:`hint_regret`.

    Returns:
        One result per task, in order.

    Raises:
        ValueError: A return is not finite.
    """
    all_tasks = tuple(tasks)
    pool = fit_regret_pool(all_tasks, pairing=pairing, of=of, window=window)
    prior = None if isinstance(pool, Unknown) else pool
    return tuple(hint_regret(task, pairing=pairing, of=of, window=window, pool=prior) for task in all_tasks)


def _difference(outcomes: Outcomes, pairing: Pairing, of: Measure, window: int | None) -> Difference | Unknown:
    if window is None:
        hinted_windows = outcomes.windows[outcomes.hinted]
        if not len(hinted_windows):
            return Unknown("no plays with the hint", len(outcomes))
        window = int(hinted_windows.max())
    at_window = outcomes.windows == window
    hinted, plain = at_window & outcomes.hinted, at_window & ~outcomes.hinted
    num_hinted, num_plain = int(hinted.sum()), int(plain.sum())
    if not num_hinted or not num_plain:
        missing = "without" if num_hinted else "with"
        return Unknown(f"no plays {missing} the hint in window {window}", num_hinted + num_plain)
    values = measured(outcomes, of)
    if pairing == "plain":
        return unpaired_difference(values[hinted], values[plain])
    if pairing == "paired":
        found = paired_difference(values[hinted], outcomes.seeds[hinted], values[plain], outcomes.seeds[plain])
        return found or Unknown(f"no instance was played in both arms in window {window}", num_hinted + num_plain)
    raise ValueError(f"pairing must be 'plain' or 'paired', got {pairing!r}")


def _moderated_error(found: Difference, pooled: float) -> float:
    counts = np.asarray(found.counts)
    variances = moderated_variances(found.variances, counts, [pooled])
    return math.sqrt(float((variances / counts).sum()))
