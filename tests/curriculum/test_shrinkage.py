import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade_gym.curriculum.shrinkage import (
    HintPrior,
    NormalPrior,
    fit_hint_prior,
    fit_normal_prior,
    moderated_variances,
    pooled_variance,
)


def test_variances_by_hand():
    # (3 · 0.2 + 1 · 0.6 + 0.25) / (3 + 1 + 1)
    pooled = pooled_variance([0.2, 0.6, math.nan], [4, 2, 1])
    assert pooled == pytest.approx([0.29])
    found = moderated_variances([0.2, 0.6, math.nan], [4, 2, 1], pooled, weight=2)
    assert found == pytest.approx([(0.6 + 0.58) / 5, (0.6 + 0.58) / 3, 0.29])


def test_a_pool_without_spread_is_not_certain():
    assert pooled_variance([0.0] * 4, [16] * 4)[0] == pytest.approx(0.25 / 61)


def test_variances_refuse():
    with pytest.raises(ValueError, match="at least 1 play, got 0"):
        pooled_variance([0.1], [0])
    with pytest.raises(ValueError, match="must not be negative"):
        pooled_variance([-0.1], [2])
    with pytest.raises(ValueError, match="weight must be greater than 0"):
        moderated_variances([0.1], [2], [0.1], weight=0)


def test_normal_posterior_by_hand():
    # trust 0.03 / (0.03 + 0.01) = 0.75
    prior = NormalPrior(np.array([0.2]), np.array([0.03]))
    means, deviations = prior.posterior([0.6, 0.2], [0.1, 0.1])
    assert means == pytest.approx([0.5, 0.2])
    assert deviations == pytest.approx([math.sqrt(0.0075)] * 2)


def test_normal_prior_is_found():
    rng = np.random.default_rng(0)
    truth = rng.normal(0.3, 0.4, 2000)
    prior = fit_normal_prior(rng.normal(truth, 0.2), np.full(2000, 0.2))
    assert prior.mean[0] == pytest.approx(0.3, abs=0.03)
    assert prior.variance[0] == pytest.approx(0.16, abs=0.015)


def test_half_normal_posterior_by_numerical_integration():
    prior = HintPrior(np.array([0.5, 0.3, 0.2]), np.array([0.3, 0.1]))
    grid = np.linspace(1e-5, 3, 300_001)
    for x, se in ((0.1, 0.1), (-0.2, 0.1), (0.6, 0.05)):

        def seen(effect, x=x, se=se):
            return np.exp(-((x - effect) ** 2) / (2 * se**2))

        helps = 0.3 * 2 * np.exp(-(grid**2) / 0.18) / (0.3 * math.sqrt(2 * math.pi)) * seen(grid)
        harms = 0.2 * 2 * np.exp(-(grid**2) / 0.02) / (0.1 * math.sqrt(2 * math.pi)) * seen(-grid)
        step = grid[1] - grid[0]
        total = 0.5 * seen(0.0) + (helps.sum() + harms.sum()) * step
        mean = (grid * (helps - harms)).sum() * step / total
        square = (grid**2 * (helps + harms)).sum() * step / total
        means, deviations = prior.posterior([x], [se])
        assert means[0] == pytest.approx(mean, abs=1e-4)
        assert deviations[0] == pytest.approx(math.sqrt(square - mean**2), abs=1e-4)


def test_hint_prior_is_found():
    rng = np.random.default_rng(0)
    kind = rng.random(4000)
    size = np.abs(rng.normal(0, 1, 4000))
    truth = np.where(kind < 0.5, 0.0, np.where(kind < 0.9, 0.4 * size, -0.2 * size))
    prior = fit_hint_prior(rng.normal(truth, 0.05), np.full(4000, 0.05))
    assert prior.shares == pytest.approx([0.5, 0.4, 0.1], abs=0.04)
    assert prior.scales == pytest.approx([0.4, 0.2], abs=0.04)
    assert prior.shares.sum() == pytest.approx(1)


def test_one_program_has_a_prior():
    prior = fit_hint_prior([0.3], [0.1])
    mean, deviation = prior.posterior([0.3], [0.1])
    assert 0 < mean[0] < 0.3
    assert deviation[0] > 0
    assert np.isfinite(fit_normal_prior([0.3], [0.1]).variance).all()


def test_pools_are_independent():
    rng = np.random.default_rng(1)
    values, errors = rng.normal(0, 0.3, (3, 24)), np.full((3, 24), 0.1)
    together = fit_hint_prior(values, errors)
    alone = fit_hint_prior(values[1], errors[1])
    assert together.shares[1] == pytest.approx(alone.shares)
    assert together.posterior(values, errors)[0][1] == pytest.approx(alone.posterior(values[1], errors[1])[0])


def test_far_values_are_safe():
    values, errors = np.array([1.0, -1.0, 0.0]), np.full(3, 1e-3)
    prior = fit_hint_prior(values, errors)
    means, deviations = prior.posterior(values, errors)
    assert means == pytest.approx(values, abs=1e-2)
    assert np.isfinite(deviations).all()


@pytest.mark.parametrize(
    ("values", "errors", "message"),
    [
        ([0.1], [0.0], "must be positive, got 0"),
        ([0.1], [0.1, 0.2], r"got shapes \(1,\) and \(2,\)"),
        ([], [], "each estimate needs"),
        ([math.nan], [0.1], "values must be finite"),
    ],
)
def test_bad_estimates(values, errors, message):
    for fit in (fit_hint_prior, fit_normal_prior):
        with pytest.raises(ValueError, match=message):
            fit(values, errors)


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(0.01, 0.5)), min_size=1, max_size=12))
def test_shrinking_never_leaves_the_room(rows):
    values, errors = np.array([v for v, _ in rows]), np.array([e for _, e in rows])
    means, deviations = fit_hint_prior(values, errors).posterior(values, errors)
    assert np.isfinite(means).all()
    assert (deviations >= 0).all()
    assert (np.abs(means) <= np.abs(values) + errors).all()
    assert (deviations <= errors + 0.5).all()
    normal, spread = fit_normal_prior(values, errors).posterior(values, errors)
    assert (normal >= values.min() - 1e-9).all()
    assert (normal <= values.max() + 1e-9).all()
    assert (spread <= errors + 1e-12).all()
