"""What 16 plays tell about a hint: bias, error and use of four estimators of hint regret, by simulation.

The population (issue 3, point 3). A pool has 24 programs. A program is won without the hint with probability
p ~ U(0, 1); its true regret g is 0 with probability 0.4, else min(|N(0, 0.3)|, 1 − p). Instance i of a program is
won without the hint with probability d_i ~ Beta(c·p, c·(1 − p)), with concentration c = 0.5 (most instances are nearly
always or nearly never won), and also 2 and 8.

How the hint acts. It tells a player that would fail what it needs with probability q = g / (1 − p), so instance i is
won with it with probability h_i = d_i + (1 − d_i)·q, whose mean is p + g. (A hint that makes the share q of the
instances certain and leaves the others as they are gives the same results, one play per instance and arm.)

The prior of the shrunken estimators has the form of this population's regrets (a point mass at 0 and half-normal
effects; its numbers are estimated), which flatters them. So other populations are simulated too: ``harmful`` (a fifth
of the hints mislead by min(|N(0, 0.2)|, p)), ``uniform`` (regret sizes uniform on [0, min(0.5, 1 − p)]) and ``none``
(no hint does anything).

What is common to a pair. Only the instance: both plays of a pair have the same d_i, and each is then won or lost by a
draw of its own. Nothing of the player's chance is shared. ``plain`` and ``shrunk`` draw different instances for
the two arms; ``paired`` and ``paired_shrunk`` the same ones.

The estimators. ``plain``: difference of means, as published. ``paired``: the same on common instances. ``shrunk``
and ``paired_shrunk``: posterior means under the prior of :mod:`spade_gym.curriculum.shrinkage`, fitted to the
pool's 24 estimates alone.

What is reported. Bias and RMSE are of the regret. Spearman's correlation, within a pool and averaged over pools, is
between the designer reward 0.6·plateau(win rate) + 0.4·clip(regret/0.15, 0, 1) from a window win rate of 64 plays and
the estimated regret, and that from the true p and g. ``clipped_mean_at_zero`` is the mean of
clip(estimate/0.15, 0, 1) over programs whose true regret is 0, where it should be 0.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from spade_gym.bench.estimator_allocation import top_regrets
from spade_gym.curriculum.plateau_scorers import HIGH, LOW, PLATEAU_WEIGHT, RAMP, REGRET_SCALE, REGRET_WEIGHT
from spade_gym.curriculum.shrinkage import fit_hint_prior, moderated_variances, pooled_variance

_Floats = npt.NDArray[np.float64]
#: How true regrets are drawn: as stated, or one of the other populations.
Kind = Literal["stated", "harmful", "uniform", "none"]

NUM_PROGRAMS = 24
PLAYS_PER_ARM = (4, 8, 16, 32, 64)
ESTIMATORS = ("plain", "paired", "shrunk", "paired_shrunk")
CONCENTRATION = 0.5
OTHER_CONCENTRATIONS = (2.0, 8.0)
OTHER_KINDS: tuple[Kind, ...] = ("harmful", "uniform", "none")
_WINDOW_PLAYS = 64
_NO_REGRET_SHARE, _REGRET_SCALE = 0.4, 0.3
_HARMFUL_SHARE, _HARM_SCALE, _UNIFORM_SIZE = 0.2, 0.2, 0.5
GOAL_PLAYS = 16

#: The bounds of this project at 16 plays an arm, of ``paired_shrunk``: name, bound, and whether it is an upper one.
GOALS = (("mean_squared_error", 0.010, True), ("spearman", 0.80, False))


class Population(NamedTuple):
    """Pools of programs.

    Attributes:
        success: (pools, 24) probability p of a win without the hint.
        regret: (pools, 24) true regret g.
        concentration: c of the instances' difficulty.
    """

    success: _Floats
    regret: _Floats
    concentration: float


class Plays(NamedTuple):
    """Wins (1 or 0), the last axis over plays.

    Attributes:
        plain: (pools, 24, n) without the hint.
        hinted: (pools, 24, n) with it, on the same instances.
        elsewhere: (pools, 24, n) with it, on other instances.
    """

    plain: _Floats
    hinted: _Floats
    elsewhere: _Floats


def simulate(*, num_pools: int = 400, seed: int = 0) -> dict[str, Any]:
    """Run the whole simulation; the same arguments give the same numbers.

    Args:
        num_pools: Pools of 24 programs; 400 give the mean squared error to about 2 %.
        seed: Of all chance.

    Returns:
        ``rows`` of ``{estimator, plays_per_arm, bias, rmse, spearman, clipped_mean_at_zero}`` at concentration 0.5;
        ``rows_by_concentration``, the same at 2 and 8; ``rows_by_population``, the same for other populations of
        regrets; ``top3``, rows of ``{allocation, plays_per_arm, regret,
        pairs_used}``: the mean true regret of the 3 programs chosen of 24, beside those of the best 3 and of any 3;
        ``goals`` with what was reached; ``population``, the numbers behind them.

    Raises:
        ValueError: ``num_pools`` is below 2.
    """
    if num_pools < 2:
        raise ValueError(f"num_pools must be at least 2, got {num_pools}")
    streams = iter(np.random.default_rng(seed).spawn(1 + len(OTHER_CONCENTRATIONS) + len(OTHER_KINDS) + 1))
    rows = _rows(next(streams), num_pools, CONCENTRATION, "stated")
    by_concentration = {f"{c:g}": _rows(next(streams), num_pools, c, "stated") for c in OTHER_CONCENTRATIONS}
    by_population = {kind: _rows(next(streams), num_pools, CONCENTRATION, kind) for kind in OTHER_KINDS}
    rng = next(streams)
    population = draw_population(rng, num_pools, CONCENTRATION)
    even = rng.binomial(GOAL_PLAYS, 0.5, (2, 100_000)) / GOAL_PLAYS
    return {
        "rows": rows,
        "rows_by_concentration": by_concentration,
        "rows_by_population": by_population,
        "top3": _top3(rng, population),
        "plain_clipped_mean_at_zero_if_even": round(float(_clipped(even[0] - even[1]).mean()), 4),
        "goals": _goals(rows),
        "population": {
            "programs": NUM_PROGRAMS,
            "pools": num_pools,
            "seed": seed,
            "success_without_hint": "U(0, 1)",
            "regret": f"0 with probability {_NO_REGRET_SHARE}, else min(|N(0, {_REGRET_SCALE})|, 1 - p)",
            "instance_success": f"Beta(c p, c (1 - p)), c = {CONCENTRATION:g}",
            "window_plays": _WINDOW_PLAYS,
        },
    }


def draw_population(
    rng: np.random.Generator, num_pools: int, concentration: float, kind: Kind = "stated"
) -> Population:
    """Draw pools of programs, with regrets as the population ``kind`` has them."""
    success = rng.random((num_pools, NUM_PROGRAMS)).clip(1e-6, 1 - 1e-6)
    if kind == "uniform":
        size = rng.random(success.shape) * np.minimum(_UNIFORM_SIZE, 1 - success)
    else:
        size = np.minimum(np.abs(rng.normal(0.0, _REGRET_SCALE, success.shape)), 1 - success)
    without = 1.0 if kind == "none" else _NO_REGRET_SHARE
    regret = np.where(rng.random(success.shape) < without, 0.0, size)
    if kind == "harmful":
        harm = np.minimum(np.abs(rng.normal(0.0, _HARM_SCALE, success.shape)), success)
        regret = np.where(rng.random(success.shape) < _HARMFUL_SHARE, -harm, regret)
    return Population(success, regret, concentration)


def draw_plays(rng: np.random.Generator, population: Population, num_plays: int) -> Plays:
    """Play every program ``num_plays`` times in each arm, once per instance."""
    instances = _draw_instances(rng, population, num_plays)
    others = _draw_instances(rng, population, num_plays)
    return Plays(
        _draw_wins(rng, instances),
        _draw_wins(rng, _with_hint(population, instances)),
        _draw_wins(rng, _with_hint(population, others)),
    )


def _with_hint(population: Population, instances: _Floats) -> _Floats:
    """Chances of a win with the hint: some who would fail are told, or some who would win are misled."""
    told = (np.maximum(population.regret, 0.0) / (1 - population.success))[..., None]
    misled = (np.maximum(-population.regret, 0.0) / population.success)[..., None]
    return (instances + (1 - instances) * told) * (1 - misled)


def estimate(plays: Plays) -> dict[str, _Floats]:
    """Return every estimator's regrets, (pools, 24) each."""
    differences = plays.hinted - plays.plain
    plain, paired = plays.elsewhere.mean(-1) - plays.plain.mean(-1), differences.mean(-1)
    return {
        "plain": plain,
        "paired": paired,
        "shrunk": _shrunken(plain, plays.plain, plays.elsewhere),
        "paired_shrunk": _shrunken(paired, differences),
    }


def _shrunken(estimates: _Floats, *samples: _Floats) -> _Floats:
    """Posterior means of estimates whose variance is the sum of those of the samples' means."""
    num_plays = samples[0].shape[-1]
    variances = np.concatenate([sample.var(-1, ddof=1) for sample in samples], axis=-1)
    counts = np.full(variances.shape, num_plays)
    moderated = moderated_variances(variances, counts, pooled_variance(variances, counts))
    square = sum(np.split(moderated, len(samples), axis=-1)) / num_plays
    errors = np.sqrt(square)
    return fit_hint_prior(estimates, errors).posterior(estimates, errors)[0]


def _rows(rng: np.random.Generator, num_pools: int, concentration: float, kind: Kind) -> list[dict[str, Any]]:
    population = draw_population(rng, num_pools, concentration, kind)
    window = _draw_wins(rng, _draw_instances(rng, population, _WINDOW_PLAYS)).mean(-1)
    all_plays = draw_plays(rng, population, max(PLAYS_PER_ARM))
    truth = _reward(population.success, population.regret)
    found = {}
    for num_plays in PLAYS_PER_ARM:
        estimates = estimate(Plays(*(arm[..., :num_plays] for arm in all_plays)))
        for name, values in estimates.items():
            errors = values - population.regret
            found[name, num_plays] = {
                "estimator": name,
                "plays_per_arm": num_plays,
                "bias": round(float(errors.mean()), 4),
                "rmse": round(float(np.sqrt((errors**2).mean())), 4),
                "spearman": round(float(spearman(_reward(window, values), truth).mean()), 4),
                "clipped_mean_at_zero": round(float(_clipped(values[population.regret == 0]).mean()), 4),
            }
    return [found[name, num_plays] for name in ESTIMATORS for num_plays in PLAYS_PER_ARM]


def _top3(rng: np.random.Generator, population: Population) -> list[dict[str, Any]]:
    rows = []
    for num_plays in PLAYS_PER_ARM:
        chosen = top_regrets(draw_plays(rng, population, 4 * num_plays), population.regret, num_plays)
        rows += [
            {
                "allocation": name,
                "plays_per_arm": num_plays,
                "regret": round(regret, 4),
                "pairs_used": round(pairs, 1),
            }
            for name, (regret, pairs) in chosen.items()
        ]
    return rows


def _goals(rows: list[dict[str, Any]]) -> dict[str, Any]:
    best = next(row for row in rows if (row["estimator"], row["plays_per_arm"]) == ("paired_shrunk", GOAL_PLAYS))
    reached = {"mean_squared_error": round(best["rmse"] ** 2, 5), "spearman": best["spearman"]}
    return {
        name: {
            "bound": bound,
            "reached": reached[name],
            "met": reached[name] <= bound if upper else reached[name] >= bound,
        }
        for name, bound, upper in GOALS
    }


def _draw_instances(rng: np.random.Generator, population: Population, num_plays: int) -> _Floats:
    success = population.success[..., None]
    c = population.concentration
    return rng.beta(c * success, c * (1 - success), (*population.success.shape, num_plays))


def _draw_wins(rng: np.random.Generator, chances: _Floats) -> _Floats:
    return (rng.random(chances.shape) < chances).astype(np.float64)


def _clipped(regrets: _Floats) -> _Floats:
    return np.clip(regrets / REGRET_SCALE, 0.0, 1.0)


def _reward(win_rates: _Floats, regrets: _Floats) -> _Floats:
    """Designer reward, elementwise; the scalar one is :func:`~spade_gym.curriculum.plateau_scorers.spade_score`."""
    level = np.clip(1 - np.maximum(LOW - win_rates, win_rates - HIGH) / RAMP, 0.0, 1.0)
    return PLATEAU_WEIGHT * level + REGRET_WEIGHT * _clipped(regrets)


def spearman(left: _Floats, right: _Floats) -> _Floats:
    """Return Spearman's rank correlation along the last axis, with mean ranks for ties."""
    a, b = (ranks - ranks.mean(-1, keepdims=True) for ranks in map(_mean_ranks, (left, right)))
    correlation: _Floats = (a * b).sum(-1) / np.sqrt((a * a).sum(-1) * (b * b).sum(-1))
    return correlation


def _mean_ranks(values: _Floats) -> _Floats:
    above = values[..., :, None] - values[..., None, :]
    ranks: _Floats = (above > 0).sum(-1) + (above == 0).sum(-1) / 2
    return ranks
