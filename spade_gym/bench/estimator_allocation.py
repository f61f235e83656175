"""Which 3 of 24 programs does a budget of plays find, if it is spent evenly or where it matters?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from spade_gym.curriculum.allocation import halving_sizes, screening, sequential_halving
from spade_gym.curriculum.shrinkage import fit_hint_prior, moderated_variances, pooled_variance

if TYPE_CHECKING:
    from spade_gym.bench.estimators import Plays

_Floats = npt.NDArray[np.float64]
_Ints = npt.NDArray[np.int64]

KEEP = 3


class Statistics:
    """Means and errors of the pairs played so far, out of all that could be.

    Args:
        differences: (pools, programs, n) differences of all pairs that may be played.
    """

    def __init__(self, differences: _Floats) -> None:
        zeros = np.zeros((*differences.shape[:-1], 1))
        self._sums = np.concatenate([zeros, differences.cumsum(-1)], axis=-1)
        self._squares = np.concatenate([zeros, (differences**2).cumsum(-1)], axis=-1)
        self.counts: _Ints = np.zeros(differences.shape[:-1], dtype=np.int64)

    def play(self, extra: _Ints) -> None:
        """Play ``extra`` more pairs of each program, as far as there are any."""
        self.counts = np.minimum(self.counts + extra, self._sums.shape[-1] - 1)

    def means(self) -> _Floats:
        """Mean difference of each program; 0 without a pair."""
        return self._at(self._sums) / np.maximum(self.counts, 1)

    def errors(self) -> _Floats:
        """Standard error of each mean, from moderated variances; every program needs a pair."""
        n = np.maximum(self.counts, 1)
        spread = (self._at(self._squares) - n * self.means() ** 2).clip(0.0) / np.maximum(n - 1, 1)
        return np.sqrt(moderated_variances(spread, n, pooled_variance(spread, n)) / n)

    def posterior_means(self) -> _Floats:
        """Shrunken mean difference of each program."""
        means, errors = self.means(), self.errors()
        return fit_hint_prior(means, errors).posterior(means, errors)[0]

    def _at(self, totals: _Floats) -> _Floats:
        return np.take_along_axis(totals, self.counts[..., None], axis=-1)[..., 0]


def top_regrets(plays: Plays, regrets: _Floats, num_plays: int) -> dict[str, tuple[float, float]]:
    """Choose 3 programs of each pool by every allocation at a budget of ``num_plays`` pairs per program.

    Args:
        plays: Enough of them for any allocation: about 4 · ``num_plays`` of each program.
        regrets: (pools, 24) true regrets.
        num_plays: Plays per arm and program, on average.

    Returns:
        By allocation: the mean true regret of the chosen, and the mean number of pairs used in a pool. ``best`` and
        ``any`` are what a perfect choice and a blind one would have.
    """
    num_pools = len(regrets)
    budget = num_plays * regrets.shape[-1]
    plain = plays.elsewhere[..., :num_plays].mean(-1) - plays.plain[..., :num_plays].mean(-1)
    differences = plays.hinted - plays.plain
    fixed = Statistics(differences)
    fixed.play(np.full(regrets.shape, num_plays))
    halved, halved_alive = _halve(differences, budget)
    screened, screened_alive = _screen(differences, budget, num_plays)
    everyone = np.ones(regrets.shape, dtype=np.bool_)
    choices = {
        "fixed_plain": (plain, everyone, float(budget)),
        "fixed_paired": (fixed.means(), everyone, float(budget)),
        "fixed_paired_shrunk": (fixed.posterior_means(), everyone, float(budget)),
        "sequential_halving": (halved.means(), halved_alive, float(halved.counts.sum() / num_pools)),
        "screening": (screened.posterior_means(), screened_alive, float(screened.counts.sum() / num_pools)),
        "best": (regrets, everyone, 0.0),
    }
    found = {name: (_chosen(values, alive, regrets), pairs) for name, (values, alive, pairs) in choices.items()}
    return {**found, "any": (float(regrets.mean()), 0.0)}


def _halve(differences: _Floats, budget: int) -> tuple[Statistics, npt.NDArray[np.bool_]]:
    statistics = Statistics(differences)
    alive = np.ones(statistics.counts.shape, dtype=np.bool_)
    for round_index in range(len(halving_sizes(differences.shape[1], KEEP))):
        alive, extra = sequential_halving(statistics.means(), alive, round_index=round_index, budget=budget, keep=KEEP)
        statistics.play(extra)
    return statistics, alive


def _screen(differences: _Floats, budget: int, num_plays: int) -> tuple[Statistics, npt.NDArray[np.bool_]]:
    """Half of the budget on everyone, the rest in rounds on those who may be among the best."""
    statistics = Statistics(differences)
    statistics.play(np.full(statistics.counts.shape, num_plays // 2))
    alive = np.ones(statistics.counts.shape, dtype=np.bool_)
    while True:
        left = budget - statistics.counts.sum(-1)
        before = statistics.counts
        alive, extra = screening(
            statistics.means(),
            statistics.errors(),
            alive,
            keep=KEEP,
            round_plays=max(1, num_plays // 4),
            budget_left=left,
        )
        statistics.play(extra)
        if (statistics.counts == before).all():
            return statistics, alive


def _chosen(values: _Floats, alive: npt.NDArray[np.bool_], regrets: _Floats) -> float:
    """Mean true regret of the best ``KEEP`` of those alive."""
    order = np.argsort(-np.where(alive, values, -np.inf), axis=-1, kind="stable")[..., :KEEP]
    return float(np.take_along_axis(regrets, order, axis=-1).mean())
