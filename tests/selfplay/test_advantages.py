from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade_gym.selfplay.advantages import group_advantages


def test_z_scores_use_the_population_deviation() -> None:
    assert group_advantages([0.0, 1.0, 1.0, 0.0]) == pytest.approx([-1, 1, 1, -1], abs=1e-6)
    assert group_advantages([0.0, 0.0, 0.0, 1.0]) == pytest.approx([-0.57735, -0.57735, -0.57735, 1.73205], abs=1e-5)
    assert group_advantages([0.0, 0.0, 0.0, 1.0], std=False) == pytest.approx([-0.25, -0.25, -0.25, 0.75])


def test_equal_rewards_teach_nothing() -> None:
    assert group_advantages([0.1] * 7) == (0.0,) * 7
    assert group_advantages([]) == ()


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=20))
def test_advantages_of_a_group_sum_to_zero(rewards: list[float]) -> None:
    assert sum(group_advantages(rewards)) == pytest.approx(0.0, abs=1e-6)
    assert sum(group_advantages(rewards, std=False)) == pytest.approx(0.0, abs=1e-9)


def test_rewards_must_be_finite() -> None:
    with pytest.raises(ValueError, match="finite"):
        group_advantages([0.0, float("nan")])
