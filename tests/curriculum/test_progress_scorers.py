import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade_gym.curriculum.outcomes import Outcomes
from spade_gym.curriculum.progress_scorers import absolute_learning_progress, micro_progress, tscl_slope
from spade_gym.curriculum.score import Score, Unknown


def test_alp_by_hand():
    # newer half 1, 0, 1 (2/3), older half 0, 1, 0 (1/3): variances 1/3 each of 3
    score = absolute_learning_progress(Outcomes.of([9, 0, 1, 0, 1, 0, 1]), num_plays=6)
    assert score.value == pytest.approx(1 / 3)
    assert score.standard_error == pytest.approx(math.sqrt(2 / 9))
    assert score.n == 6


def test_alp_counts_decline_too():
    assert absolute_learning_progress(Outcomes.of([1, 1, 0, 0])).value == 1.0
    assert absolute_learning_progress(Outcomes.of([0.2, 0.5]), num_plays=2) == Score(pytest.approx(0.3), None, 2)


def test_alp_leaves_the_middle_play_of_an_odd_number_out():
    assert absolute_learning_progress(Outcomes.of([0, 5, 1])).value == 1.0


def test_tscl_by_hand():
    # t = 0..3, y = 0, 0, 1, 1: Sxy = 2, Sxx = 5, slope 0.4; residuals ±0.1, ±0.3: SSE 0.2
    score = tscl_slope(Outcomes.of([0, 0, 1, 1]))
    assert score.value == pytest.approx(0.4)
    assert score.standard_error == pytest.approx(math.sqrt(0.2 / 2 / 5))
    assert tscl_slope(Outcomes.of([1, 0])) == Score(-1.0, None, 2)
    assert tscl_slope(Outcomes.of([5, 5, 0, 1]), num_plays=2).value == pytest.approx(1.0)


def test_micro_progress_by_hand():
    # two windows of two plays: 0, 1 and 1, 1. Change 0.5; s² = 0.5/2, Σ w (x - x̄)² = 4 · 0.25 = 1
    score = micro_progress(Outcomes.of([0, 1, 1, 1], windows=[3, 3, 8, 8]))
    assert score.value == pytest.approx(0.5)
    assert score.standard_error == pytest.approx(0.5)
    assert micro_progress(Outcomes.of([0, 1], windows=[0, 1])) == Score(1.0, None, 2)


def test_micro_progress_of_the_last_windows():
    assert micro_progress(Outcomes.of([5, 0, 1], windows=[0, 1, 2]), num_windows=2).value == 1.0


def test_hinted_plays_do_not_count():
    outcomes = Outcomes.of([0, 1, 9, 9], hinted=[0, 0, 1, 1], windows=[0, 1, 1, 2])
    assert absolute_learning_progress(outcomes).n == tscl_slope(outcomes).n == micro_progress(outcomes).n == 2


@pytest.mark.parametrize("scorer", [absolute_learning_progress, tscl_slope, micro_progress])
def test_too_few_plays_are_unknown(scorer):
    assert isinstance(scorer(Outcomes.of([])), Unknown)
    assert scorer(Outcomes.of([1.0])).n == 1
    assert isinstance(scorer(Outcomes.of([1.0])), Unknown)
    with pytest.raises(ValueError, match="finite"):
        scorer(Outcomes.of([1.0, math.nan], windows=[0, 1]))


def test_settings_are_checked():
    with pytest.raises(ValueError, match="num_plays must be at least 2"):
        tscl_slope(Outcomes.of([1, 0]), num_plays=1)
    with pytest.raises(ValueError, match="num_plays must be at least 2"):
        absolute_learning_progress(Outcomes.of([1, 0]), num_plays=1)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=30))
def test_ranges(returns):
    outcomes = Outcomes.of(returns, windows=[i // 3 for i in range(len(returns))])
    assert 0 <= absolute_learning_progress(outcomes).value <= 1
    assert -1 <= tscl_slope(outcomes).value <= 1
    level = Outcomes.of([0.5] * len(returns), windows=range(len(returns)))
    assert tscl_slope(level).value == pytest.approx(0, abs=1e-12)
    assert micro_progress(level).value == pytest.approx(0, abs=1e-12)
