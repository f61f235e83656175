import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade_gym.curriculum.difficulty_scorers import (
    azr_score,
    instance_learnability,
    learnability,
    return_variance,
    rzero_score,
    unbiased_learnability,
    variance_target,
)
from spade_gym.curriculum.outcomes import Outcomes
from spade_gym.curriculum.score import Score, Unknown

ALL = [
    azr_score, instance_learnability, learnability, return_variance, rzero_score, unbiased_learnability, variance_target
]  # fmt: skip


def wins(won, n):
    return Outcomes.of([1.0] * won + [0.0] * (n - won))


def test_learnability_by_hand():
    assert learnability(wins(1, 4)).value == 0.1875
    assert unbiased_learnability(wins(1, 4)).value == 0.25
    assert unbiased_learnability(wins(1, 2)).value == 0.5
    assert learnability(wins(1, 1)) == Score(0.0, None, 1)
    # p = 1/4, n = 4: σ² = 3/16, μ₄ = 3/16 · 7/16, (μ₄ - σ⁴/3)/4
    assert unbiased_learnability(wins(1, 4)).standard_error == pytest.approx(
        math.sqrt((21 / 256 - 9 / 256 / 3) / 4), abs=1e-12
    )


def test_unbiased_learnability_is_unbiased_and_its_error_right():
    rng = np.random.default_rng(0)
    scores = [unbiased_learnability(wins(int(k), 16)) for k in rng.binomial(16, 0.3, 4000)]
    values = np.array([score.value for score in scores])
    assert values.mean() == pytest.approx(0.21, abs=0.002)
    assert np.mean([score.standard_error for score in scores]) == pytest.approx(values.std(), rel=0.15)


@given(st.lists(st.booleans(), min_size=2, max_size=40))
def test_the_variance_of_wins_is_the_unbiased_learnability(won):
    outcomes = Outcomes.of([float(w) for w in won])
    ours, theirs = return_variance(outcomes), unbiased_learnability(outcomes)
    assert ours.value == pytest.approx(theirs.value)
    assert ours.standard_error == pytest.approx(theirs.standard_error, abs=1e-9)


def test_return_variance_by_hand():
    assert return_variance(Outcomes.of([0.5] * 9)) == Score(0.0, 0.0, 9)
    # deviations -0.1, 0, 0.1: variance 0.02 / 2; mean fourth power 2e-4 / 3; n - 3 = 0
    found = return_variance(Outcomes.of([0.2, 0.3, 0.4]))
    assert found.value == pytest.approx(0.01)
    assert found.standard_error == pytest.approx(math.sqrt(2e-4 / 9))
    assert return_variance(Outcomes.of([0, 0, 1, 0, 1, 1]), num_plays=2).value == 0.0
    assert return_variance(wins(1, 1)) == Unknown("a variance needs two plays without the hint", 1)
    with pytest.raises(ValueError, match="num_plays must be at least 2 or None, got 1"):
        return_variance(wins(1, 4), num_plays=1)


def test_variance_target():
    assert variance_target(wins(1, 2)).value == 1.0
    assert variance_target(wins(2, 2)).value == pytest.approx(math.exp(-3.125))
    assert variance_target(Outcomes.of([0.25, 0.75])).value == pytest.approx(math.exp(-(0.1875**2) / 0.02))
    with pytest.raises(ValueError, match="width must be greater than 0"):
        variance_target(wins(1, 2), width=0)


def test_azr_and_rzero():
    assert [azr_score(wins(k, 4)).value for k in range(5)] == [0.0, 0.75, 0.5, 0.25, 0.0]
    assert [rzero_score(wins(k, 4)).value for k in range(5)] == [0.0, 0.25, 0.5, 0.25, 0.0]
    assert azr_score(wins(1, 4)).standard_error == pytest.approx(math.sqrt(3 / 64))
    assert azr_score(wins(0, 4)).standard_error is None
    assert rzero_score(wins(2, 4)).standard_error is None


def test_instances_that_are_certain_have_nothing_to_learn():
    mixture = Outcomes.of([1, 1, 1, 1, 0, 0, 0, 0], seeds=[1, 1, 2, 2, 3, 3, 4, 4])
    assert learnability(mixture).value == 0.25
    assert instance_learnability(mixture) == Score(0.0, 0.0, 8)
    even = Outcomes.of([1, 0, 1, 0], seeds=[1, 1, 2, 2])
    assert instance_learnability(even).value == 0.5  # unbiased for two plays: 2 · 1/4


def test_one_play_of_each_instance_cannot_tell():
    assert instance_learnability(wins(2, 4)) == Unknown("no instance was played twice without the hint", 4)
    # the instance played once is left out
    assert instance_learnability(Outcomes.of([1, 0, 1], seeds=[1, 1, 2])) == Score(0.5, None, 2)


@pytest.mark.parametrize("scorer", ALL)
def test_no_plays_are_unknown(scorer):
    assert isinstance(scorer(Outcomes.of([])), Unknown)
    assert isinstance(scorer(Outcomes.of([1.0, 0.0], hinted=[True, True], seeds=[1, 1])), Unknown)


def test_last_windows_only():
    outcomes = Outcomes.of([1, 1, 1, 0], windows=[0, 0, 1, 1], seeds=[1, 1, 1, 1])
    assert [scorer(outcomes, num_windows=1).n for scorer in ALL] == [2] * 7


def test_nan_is_refused():
    with pytest.raises(ValueError, match="returns must be finite"):
        variance_target(Outcomes.of([math.nan]))


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3)), min_size=2, max_size=40))
def test_ranges(rows):
    outcomes = Outcomes.of([float(w) for w, _ in rows], seeds=[s for _, s in rows])
    n = len(rows)
    assert 0 <= learnability(outcomes).value <= 0.25
    assert 0 <= unbiased_learnability(outcomes).value <= n / (4 * (n - 1)) + 1e-12
    assert 0 < variance_target(outcomes).value <= 1
    assert 0 <= azr_score(outcomes).value < 1
    assert 0 <= rzero_score(outcomes).value <= 0.5
    instances = instance_learnability(outcomes)
    assert isinstance(instances, Unknown) or 0 <= instances.value <= 0.5
