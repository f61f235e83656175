"""What k samples of each task say about a model, and between which bounds.

Tasks are a sample of those that could have been asked, so an interval comes from resampling them, not single answers:
all answers to a task go together, and so do all tasks of a *cluster* (the instances of one program).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spade_gym.curriculum.win_rates import wilson_interval

Floats = npt.NDArray[np.float64]

NUM_RESAMPLES = 10_000
_QUANTILES = (0.025, 0.975)
#: Cells of resampled counts that are in memory at a time.
_CELLS = 4_000_000


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over tasks with its 95 % interval.

    Attributes:
        value: The mean; ``None`` where no task has enough answers.
        low: Lower end; ``None`` where there is no interval.
        high: Upper end; ``None`` where there is no interval.
        interval: How it was made: ``bootstrap`` (percentiles, over clusters), ``wilson`` (all tasks were solved always,
            or never: a resample cannot differ; each cluster counts as one trial), or why there is none.
        num_tasks: Tasks that entered.
        num_clusters: Clusters that they belong to.
    """

    value: float | None
    low: float | None
    high: float | None
    interval: str
    num_tasks: int
    num_clusters: int


def pass_at_k(num_answers: int, num_right: int, k: int) -> float:
    """Return the chance that at least one of k answers, drawn without replacement, is right; unbiased for pass@k.

    Formula: 1 − C(n − c, k) / C(n, k) = 1 − Π_{i = n − c + 1 … n} (1 − k / i).

    Args:
        num_answers: n, at least k.
        num_right: c, 0 to n.
        k: At least 1.

    Raises:
        ValueError: An argument is out of range.

    Source: Chen et al. 2021, arXiv:2107.03374, section 2.1.
    """
    if not 1 <= k <= num_answers:
        raise ValueError(f"k must be from 1 to the number of answers, {num_answers}, got {k}")
    if not 0 <= num_right <= num_answers:
        raise ValueError(f"num_right must be from 0 to {num_answers}, got {num_right}")
    if num_answers - num_right < k:
        return 1.0
    return 1.0 - float(np.prod(1.0 - k / np.arange(num_answers - num_right + 1, num_answers + 1)))


def mean_over_tasks(values: Sequence[float], clusters: Sequence[str], *, is_share: bool = True) -> Estimate:
    """Return the mean of one value a task, and its interval: a percentile bootstrap over clusters.

    A resample draws as many clusters as there are, with replacement; its mean is over all tasks of the drawn ones
    (10,000 resamples, a fixed seed: the same values give the same interval).

    Args:
        values: (n,) of each task.
        clusters: (n,) names of the tasks' clusters.
        is_share: Whether values are shares in [0, 1], for which 0 and 1 throughout get a Wilson interval.
    """
    num_tasks, num_clusters = len(values), len(set(clusters))
    if not num_tasks:
        return Estimate(None, None, None, "no task has enough answers", 0, 0)
    data = np.array(values, dtype=np.float64)
    value = float(data.mean())
    if is_share and value in (0.0, 1.0):
        low, high = wilson_interval(value * num_clusters, num_clusters)
        return Estimate(value, low, high, "wilson", num_tasks, num_clusters)
    if num_clusters < 2:
        return Estimate(value, None, None, "one cluster tells nothing about others", num_tasks, num_clusters)
    if float(np.ptp(data)) == 0.0:
        return Estimate(value, None, None, "all tasks have the same value", num_tasks, num_clusters)
    low, high = _bootstrap(data, clusters)
    return Estimate(value, low, high, "bootstrap", num_tasks, num_clusters)


def _bootstrap(data: Floats, clusters: Sequence[str]) -> tuple[float, float]:
    """The 2.5 and 97.5 percentiles of the means of resampled clusters."""
    _, places = np.unique(np.array(clusters), return_inverse=True)
    sums, sizes = np.bincount(places, weights=data), np.bincount(places).astype(np.float64)
    rng = np.random.default_rng(0)
    step = max(1, _CELLS // len(sums))
    means: list[Floats] = []
    for begin in range(0, NUM_RESAMPLES, step):
        num = min(step, NUM_RESAMPLES - begin)
        drawn = rng.multinomial(len(sums), np.full(len(sums), 1 / len(sums)), size=num)
        means.append((drawn @ sums) / (drawn @ sizes))
    low, high = np.quantile(np.concatenate(means), _QUANTILES)
    return float(low), float(high)
