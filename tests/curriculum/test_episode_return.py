import math

import pytest

from spade_gym.curriculum.episode_return import episode_return


def test_the_sum_is_clipped():
    assert episode_return([0.2, 2.0], terminated=True) == 1.0
    assert episode_return([-0.7, -0.7], terminated=True) == -1.0
    assert episode_return([0.25, 0.5], terminated=False) == 0.75
    assert episode_return([], terminated=True) == 0.0


def test_last_pays_nothing_when_truncated():
    assert episode_return([0.2, 0.5], terminated=True, rule="last") == 0.5
    assert episode_return([0.2, 0.5], terminated=False, rule="last") == 0.0
    assert episode_return([], terminated=True, rule="last") == 0.0


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_reward_that_is_not_finite_is_no_return(bad):
    with pytest.raises(ValueError, match=r"rewards must be finite, got .* at index 1"):
        episode_return([0.0, bad], terminated=True)


def test_unknown_rules_are_refused():
    with pytest.raises(ValueError, match="'sum' or 'last'"):
        episode_return([1.0], terminated=True, rule="mean")  # type: ignore[arg-type]
