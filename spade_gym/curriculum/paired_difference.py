"""How much better is one arm than the other, on the same instances or on any?"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spade_gym.curriculum.finite import Floats, column


class Difference(NamedTuple):
    """The mean of one arm minus that of the other.

    Attributes:
        mean: Of the difference (signed).
        standard_error: ``None`` where the plays do not allow one.
        num_plays: Plays that entered.
        variances: Unbiased variance of one pair's difference, or of one play in each arm; 0 where its count is 1.
        counts: Number of pairs, or of plays in each arm. The standard error is sqrt(Σ variances/counts).
    """

    mean: float
    standard_error: float | None
    num_plays: int
    variances: tuple[float, ...]
    counts: tuple[int, ...]


def unpaired_difference(values: Floats, baseline: Floats) -> Difference:
    """Difference of the means of two independent arms; the standard error is Welch's.

    Formula: mean(a) − mean(b), with standard error sqrt(s²(a)/n(a) + s²(b)/n(b)).

    Raises:
        ValueError: An arm is empty or holds a value that is not finite.
    """
    a, b = column("values", values), column("baseline", baseline)
    if not len(a) or not len(b):
        raise ValueError(f"both arms need plays, got {len(a)} and {len(b)}")
    return _difference(float(a.mean() - b.mean()), (a, b), len(a) + len(b))


def paired_difference(
    values: Floats, seeds: npt.NDArray[np.int64], baseline: Floats, baseline_seeds: npt.NDArray[np.int64]
) -> Difference | None:
    """Difference of two arms over the instances that both played (common random numbers).

    An instance that was played several times counts once, with the mean of its plays. Only the instance is
    common to a pair; the player's own randomness is not, so the difference keeps that noise and loses the noise
    of which instances were drawn.

    Formula: d_i = mean(a on instance i) − mean(b on instance i) over m instances; mean(d) with standard error
    sqrt(s²(d)/m), and none for m = 1.

    Args:
        values: (n,) returns of one arm.
        seeds: (n,) their instance seeds.
        baseline: (k,) returns of the other arm.
        baseline_seeds: (k,) their instance seeds.

    Returns:
        The difference, or ``None`` where no instance is in both arms.

    Raises:
        ValueError: A value is not finite, or an arm's columns differ in length.

    Source: method, section 5; Law 2015, section 11.2.
    """
    a, b = column("values", values), column("baseline", baseline)
    if len(a) != len(seeds) or len(b) != len(baseline_seeds):
        raise ValueError(
            f"each return needs its seed, got {len(a)} returns and {len(seeds)} seeds in one arm, "
            f"{len(b)} and {len(baseline_seeds)} in the other"
        )
    left, left_means, left_counts = _by_seed(a, seeds)
    right, right_means, right_counts = _by_seed(b, baseline_seeds)
    _, i, j = np.intersect1d(left, right, assume_unique=True, return_indices=True)
    if not len(i):
        return None
    differences = left_means[i] - right_means[j]
    return _difference(float(differences.mean()), (differences,), int(left_counts[i].sum() + right_counts[j].sum()))


def _difference(mean: float, samples: tuple[Floats, ...], num_plays: int) -> Difference:
    counts = tuple(len(sample) for sample in samples)
    variances = tuple(_variance(sample) for sample in samples)
    square = sum(variance / count for variance, count in zip(variances, counts, strict=True))
    return Difference(mean, math.sqrt(square) if min(counts) > 1 else None, num_plays, variances, counts)


def _variance(sample: Floats) -> float:
    if len(sample) < 2:
        return 0.0
    centred = sample - sample.mean()
    return float(centred @ centred) / (len(sample) - 1)


def _by_seed(
    values: Floats, seeds: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], Floats, npt.NDArray[np.int64]]:
    unique, inverse, counts = np.unique(seeds, return_inverse=True, return_counts=True)
    sums = np.bincount(inverse, weights=values, minlength=len(unique))
    return unique, sums / np.maximum(counts, 1), counts
