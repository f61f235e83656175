import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade_gym.curriculum.average_scorers import (
    frontier_bonus,
    learning_potential,
    moving_average,
    omni_progress,
    progress_distribution,
    reweighted,
)
from spade_gym.curriculum.outcomes import Outcomes
from spade_gym.curriculum.score import Unknown


def means(*values, num_plays=1):
    return Outcomes.of(
        [value for value in values for _ in range(num_plays)],
        windows=[window for window in range(len(values)) for _ in range(num_plays)],
    )


def test_moving_average():
    assert moving_average([1, 0, 1], rate=0.5).tolist() == [1.0, 0.5, 0.75]
    assert moving_average([1, 0], rate=0.5, initial=0.0).tolist() == [0.5, 0.25]
    assert moving_average([], rate=0.5).tolist() == []
    with pytest.raises(ValueError, match="rate must be from 0 to 1"):
        moving_average([1], rate=1.5)


def test_learning_potential_by_hand():
    # slow: 0.2, then 0.85 · 0.6 + 0.15 · 0.2 = 0.54; |0.6 - 0.54|
    score = learning_potential(means(0.2, 0.6))
    assert score.value == pytest.approx(0.06)
    assert score.standard_error is None


def test_learning_potential_error_by_hand():
    # two windows of two plays (0, 1) and (1, 1): pooled variance 0.25; weights -0.15 and +0.15
    score = learning_potential(Outcomes.of([0, 1, 1, 1], windows=[0, 0, 1, 1]))
    assert score.value == pytest.approx(0.15 * 0.5)
    assert score.standard_error == pytest.approx(math.sqrt(2 * 0.15**2 * 0.25 / 2))


def test_frontier_bonus_by_hand():
    # fast: 0.592, 0.40384; slow: 0.54, 0.421
    assert frontier_bonus(means(0.2, 0.6)).value == pytest.approx(0.052)
    assert frontier_bonus(means(0.2, 0.6, 0.4)).value == pytest.approx(0.01716)


@pytest.mark.parametrize("scorer", [learning_potential, frontier_bonus, omni_progress])
def test_no_past_is_unknown(scorer):
    assert isinstance(scorer(Outcomes.of([])), Unknown)
    assert isinstance(scorer(means(1.0, num_plays=4)), Unknown)
    assert scorer(means(1.0, num_plays=4), initial=0.0).value > 0


def test_reweighting():
    assert reweighted(0.1) == pytest.approx(0.5)
    assert (reweighted(0.0), reweighted(1.0)) == (0.0, 1.0)
    assert reweighted(0.3, theta=0.5) == pytest.approx(0.3)
    with pytest.raises(ValueError, match="rate must be from 0 to 1"):
        reweighted(1.1)


def test_omni_by_hand():
    # rates 0 and 1: fast 0, 0.1; slow 0, 0.01. f(0.1) = 0.5, f(0.01) = 0.009/0.108 = 1/12
    assert omni_progress(means(0.0, 1.0)).value == pytest.approx(0.5 - 1 / 12)
    # a random player wins 0.5: window rates 0.25 (0) and 1 (1)
    outcomes = Outcomes.of([0, 0, 0, 1, 1], windows=[0, 0, 0, 0, 1])
    assert omni_progress(outcomes, random_rate=0.5).value == pytest.approx(0.5 - 1 / 12)


def test_progress_distribution():
    assert progress_distribution([0.2, 0.2]).tolist() == [0.5, 0.5]
    # z = -1 and 1 around 0 with the quantile one half: sigmoids e/(1+e) to 1/(1+e)
    assert progress_distribution([0, 2], quantile=0.5) == pytest.approx([1 / (1 + math.e), math.e / (1 + math.e)])
    probabilities = progress_distribution([0.0] * 9 + [0.5])
    assert probabilities.sum() == pytest.approx(1)
    assert probabilities[-1] > 5 * probabilities[0]
    with pytest.raises(ValueError, match="at least one"):
        progress_distribution([])
    with pytest.raises(ValueError, match="finite"):
        progress_distribution([0.0, math.nan])


@given(st.lists(st.floats(0, 1), min_size=2, max_size=12))
def test_ranges(values):
    outcomes = means(*values)
    assert 0 <= learning_potential(outcomes).value <= 0.15 + 1e-9
    assert 0 <= frontier_bonus(outcomes).value <= 1
    assert 0 <= omni_progress(outcomes).value <= 1
    probabilities = progress_distribution(values)
    assert np.all(probabilities >= 0)
    assert probabilities.sum() == pytest.approx(1)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0, 1), st.booleans())
def test_weights_give_the_average(values, rate, starts):
    from spade_gym.curriculum.average_scorers import _weights

    initial = 0.3 if starts else None
    weights = _weights(len(values), rate, initial)
    constant = 0.3 * (1 - rate) ** len(values) if starts else 0.0
    average = moving_average(values, rate=rate, initial=initial)[-1]
    assert constant + (weights * values).sum() == pytest.approx(average, abs=1e-9)
