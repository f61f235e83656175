import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade_gym.curriculum.outcomes import Outcomes
from spade_gym.curriculum.score import Unknown
from spade_gym.curriculum.win_rates import wilson_interval, win_rate


def test_wilson_by_hand():
    # n = 10, p = 0.5, z = 2: centre (0.5 + 0.2) / 1.4 = 0.5; half 2/1.4 · sqrt(0.025 + 0.01) = 0.26726
    assert wilson_interval(5, 10, z=2) == pytest.approx((0.5 - 0.267261, 0.5 + 0.267261), abs=1e-6)
    # n = 16, none won, z = 2: centre (4/32)/(1 + 4/16) = 0.1, half 2/1.25 · sqrt(4/1024) = 0.1
    assert wilson_interval(0, 16, z=2) == pytest.approx((0.0, 0.2))
    assert wilson_interval(16, 16, z=2) == pytest.approx((0.8, 1.0))
    assert wilson_interval(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(("wins", "n", "z"), [(-1, 4, 1.0), (5, 4, 1.0), (1, 4, 0.0), (1, 4, math.nan)])
def test_wilson_refuses(wins, n, z):
    with pytest.raises(ValueError, match="must be"):
        wilson_interval(wins, n, z=z)


@given(st.integers(0, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_the_share(case):
    wins, n = case
    low, high = wilson_interval(wins, n)
    assert 0 <= low <= high <= 1
    if n:
        assert low <= wins / n <= high


def test_win_rate_counts_plain_plays_of_the_last_windows():
    outcomes = Outcomes.of([1, 1, 0, 0.5, 1], hinted=[0, 0, 0, 0, 1], windows=[0, 0, 1, 1, 1])
    rate = win_rate(outcomes)
    assert (rate.share, rate.mean_return, rate.n, rate.constant_return) == (0.5, 0.625, 4, None)
    assert win_rate(outcomes, num_windows=1).share == 0.0


def test_a_constant_partial_return_is_flagged():
    assert win_rate(Outcomes.of([0.5, 0.5, 0.5, 1.0])).constant_return == 0.5
    assert win_rate(Outcomes.of([0.5, 0.5, 0.25, 1.0])).constant_return is None  # half is not more than half
    assert win_rate(Outcomes.of([1.0, 1.0, 1.0])).constant_return is None
    assert win_rate(Outcomes.of([0.0, 0.0, 0.5])).constant_return is None


def test_no_plays_have_no_win_rate():
    assert win_rate(Outcomes.of([])) == Unknown("no plays without the hint")
    assert isinstance(win_rate(Outcomes.of([1.0], hinted=[True])), Unknown)


def test_nan_is_refused():
    with pytest.raises(ValueError, match="returns must be finite, got nan at index 1"):
        win_rate(Outcomes.of([0.0, math.nan]))
