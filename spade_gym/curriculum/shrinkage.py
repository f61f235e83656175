"""What is a noisy estimate worth in the light of the whole pool? Empirical-Bayes shrinkage.

Sixteen plays tell a program's hint regret to about ± 0.1, no better than the spread of the regrets themselves.
The pool tells how regrets are spread; each program's posterior mean then takes from its own plays only what they
can bear. Two families of priors:

- :func:`fit_hint_prior`: a point mass at zero (the hint tells the player nothing that it needs), a half-normal of
  helpful hints and a half-normal of harmful ones. The default for hint regret: most of the gain over the
  normal prior is that what is probably zero is moved almost all the way.
- :func:`fit_normal_prior`: a normal distribution, for signed quantities without a special zero.

Both start from the plays' moderated variances (:func:`moderated_variances`): sixteen plays with equal results
do not have a standard error of zero.

Arrays may have leading axes: the last one runs over the programs of a pool, each pool gets its own prior.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spade_gym.curriculum.finite import Floats, at_least, finite

#: Weight of the pool in a program's variance, in plays.
PRIOR_PLAYS = 8.0
_ITERATIONS = 60
_TYPICAL_VARIANCE = 0.25  # of one play whose return is 0 or 1 with equal chances
# Weak knowledge for small pools: shares of (no effect, helps, harms) as pseudo-counts, half-normal scales as
# pseudo-programs of a typical squared effect.
_SHARE_COUNTS = np.array([1.0, 1.0, 0.2])
_SCALE_COUNT, _SCALE_SQUARE = 2.0, 0.04
_SQRT_TAU = math.sqrt(2 * math.pi)
_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def pooled_variance(variances: npt.ArrayLike, num_plays: npt.ArrayLike) -> Floats:
    """Return the variance of a single play over a whole pool, (..., 1), always positive.

    Formula: (Σ (n_j − 1)·s²_j + 1/4) / (Σ (n_j − 1) + 1): one more degree of freedom, worth the variance of an
    even win-or-lose play, keeps a pool whose plays all agree from claiming certainty.

    Args:
        variances: (..., m) unbiased variance of a play (or of a pair's difference); ignored where n_j = 1.
        num_plays: (..., m) plays (or pairs) behind each, at least 1.

    Raises:
        ValueError: A variance is negative or not finite, or a count is below 1.
    """
    freedom, spread = _freedom(variances, num_plays)
    total: Floats = (freedom * spread).sum(-1, keepdims=True) + _TYPICAL_VARIANCE
    total /= freedom.sum(-1, keepdims=True) + 1
    return total


def moderated_variances(
    variances: npt.ArrayLike, num_plays: npt.ArrayLike, pooled: npt.ArrayLike, *, weight: float = PRIOR_PLAYS
) -> Floats:
    """Shrink each program's variance of a single play towards the pool's.

    Formula: ((n_j − 1)·s²_j + weight·s²_0) / (n_j − 1 + weight).

    Args:
        variances: (..., m) unbiased variance of a play (or of a pair's difference); ignored where n_j = 1.
        num_plays: (..., m) plays (or pairs) behind each, at least 1.
        pooled: (..., 1) the pool's variance s²_0, from :func:`pooled_variance`.
        weight: Of the pool's variance, in plays.

    Returns:
        (..., m) variances, all positive.

    Raises:
        ValueError: A variance is negative or not finite, a count is below 1, or ``weight`` is not positive.

    Source: the form of Smyth 2004 (moderated t), with a fixed weight.
    """
    at_least("weight", weight, 0.0, strictly=True)
    freedom, spread = _freedom(variances, num_plays)
    result: Floats = (freedom * spread + weight * finite("pooled", pooled)) / (freedom + weight)
    return result


def _freedom(variances: npt.ArrayLike, num_plays: npt.ArrayLike) -> tuple[Floats, Floats]:
    counts = finite("num_plays", num_plays)
    if (counts < 1).any():
        raise ValueError(f"every program needs at least 1 play, got {counts.min():g}")
    spread = finite("variances", np.where(counts > 1, variances, 0.0))
    if (spread < 0).any():
        raise ValueError(f"variances must not be negative, got {spread.min():g}")
    return counts - 1, spread


@dataclass(frozen=True, slots=True)
class NormalPrior:
    """True values are normally distributed over the pool.

    Attributes:
        mean: (..., 1) centre.
        variance: (..., 1) of the true values, 0 when the pool shows none.
    """

    mean: Floats
    variance: Floats

    def posterior(self, values: npt.ArrayLike, errors: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Return posterior means and standard deviations, (..., m) each.

        Args:
            values: (..., m) estimates.
            errors: (..., m) their standard errors, positive.
        """
        x, square = _estimates(values, errors)
        trust = self.variance / (self.variance + square)
        return self.mean + trust * (x - self.mean), np.sqrt(trust * square)


def fit_normal_prior(values: npt.ArrayLike, errors: npt.ArrayLike) -> NormalPrior:
    """Estimate the normal prior of a pool by expectation–maximisation of its marginal likelihood.

    Args:
        values: (..., m) estimates of the pool's programs.
        errors: (..., m) their standard errors, positive.

    Raises:
        ValueError: Shapes differ, a value is not finite, or a standard error is not positive.

    Source: Efron and Morris 1973; a scale of 0.2 with weight 2 keeps the variance positive.
    """
    x, square = _estimates(values, errors)
    prior = NormalPrior(x.mean(-1, keepdims=True), np.full_like(x[..., :1], _SCALE_SQUARE))
    for _ in range(_ITERATIONS):
        means, deviations = prior.posterior(x, np.sqrt(square))
        centre = means.mean(-1, keepdims=True)
        spread = ((means - centre) ** 2 + deviations**2).sum(-1, keepdims=True)
        prior = NormalPrior(centre, (spread + _SCALE_COUNT * _SCALE_SQUARE) / (x.shape[-1] + _SCALE_COUNT))
    return prior


@dataclass(frozen=True, slots=True)
class HintPrior:
    """True regrets are zero, or helpful, or harmful by a half-normal amount.

    Attributes:
        shares: (..., 3) shares of no effect, helpful, harmful; their sum is 1.
        scales: (..., 2) root mean square of helpful and of harmful effects.
    """

    shares: Floats
    scales: Floats

    def posterior(self, values: npt.ArrayLike, errors: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Return posterior means and standard deviations, (..., m) each.

        Args:
            values: (..., m) estimates.
            errors: (..., m) their standard errors, positive.
        """
        x, square = _estimates(values, errors)
        weights, firsts, seconds = self._components(x, square)
        mean = weights[1] * firsts[0] - weights[2] * firsts[1]
        second = weights[1] * seconds[0] + weights[2] * seconds[1]
        return mean, np.sqrt(np.maximum(second - mean**2, 0.0))

    def _components(self, x: Floats, square: Floats) -> tuple[Floats, Floats, Floats]:
        """Responsibilities (3, ..., m), and first and second moments (2, ..., m) of the sizes of effects."""
        helps = _half_normal(x, square, self.scales[..., 0:1] ** 2)
        harms = _half_normal(-x, square, self.scales[..., 1:2] ** 2)
        log_densities = np.stack([-x * x / (2 * square) - np.log(square) / 2, helps[0], harms[0]])
        shares = np.moveaxis(self.shares, -1, 0)[..., None]
        weights = shares * np.exp(log_densities - log_densities.max(0))
        return weights / weights.sum(0), np.stack([helps[1], harms[1]]), np.stack([helps[2], harms[2]])


def fit_hint_prior(values: npt.ArrayLike, errors: npt.ArrayLike) -> HintPrior:
    """Estimate the prior of hint regrets of a pool by expectation–maximisation.

    Args:
        values: (..., m) estimated regrets of the pool's programs.
        errors: (..., m) their standard errors, positive.

    Returns:
        The most probable prior under weak knowledge (pseudo-counts 1 : 1 : 0.2 of no effect, help and harm; a
        scale of 0.2 with weight 2), so that pools of any size from 1 on have one.

    Raises:
        ValueError: Shapes differ, a value is not finite, or a standard error is not positive.

    Source: spike-and-slab empirical Bayes, after Johnstone and Silverman 2004; the slabs are half-normal.
    """
    x, square = _estimates(values, errors)
    shape = x.shape[:-1]
    prior = HintPrior(np.tile(_SHARE_COUNTS / _SHARE_COUNTS.sum(), (*shape, 1)), np.full((*shape, 2), 0.3))
    for _ in range(_ITERATIONS):
        weights, _, seconds = prior._components(x, square)
        totals = np.moveaxis(weights.sum(-1), 0, -1)
        squares = np.moveaxis((weights[1:] * seconds).sum(-1), 0, -1)
        prior = HintPrior(
            (totals + _SHARE_COUNTS) / (x.shape[-1] + _SHARE_COUNTS.sum()),
            np.sqrt((squares + _SCALE_COUNT * _SCALE_SQUARE) / (totals[..., 1:] + _SCALE_COUNT)),
        )
    return prior


def _half_normal(x: Floats, square: Floats, scale: Floats) -> tuple[Floats, Floats, Floats]:
    """Log density of estimates (without its constant), and first two moments of the effects behind them.

    The effects are half-normal with mean square ``scale``, the estimates' error variance is ``square``.
    """
    total = scale + square
    variance = scale * square / total
    centre, deviation = x * scale / total, np.sqrt(variance)
    z = np.maximum(centre / deviation, -30.0)
    tail = _erfc(-z / math.sqrt(2)) / 2
    hazard = np.exp(-z * z / 2) / _SQRT_TAU / tail
    first = deviation * (z + hazard)
    second = variance + deviation * z * first
    return np.log(2 * tail) - x * x / (2 * total) - np.log(total) / 2, first, second


def _estimates(values: npt.ArrayLike, errors: npt.ArrayLike) -> tuple[Floats, Floats]:
    x, deviations = np.atleast_1d(finite("values", values)), np.atleast_1d(finite("errors", errors))
    if x.shape != deviations.shape or not x.size:
        raise ValueError(f"each estimate needs its standard error, got shapes {x.shape} and {deviations.shape}")
    if (deviations <= 0).any():
        raise ValueError(
            f"standard errors must be positive, got {deviations.min():g}; moderated_variances() makes them so"
        )
    return x, deviations**2
