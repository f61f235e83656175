from __future__ import annotations

import pytest

from spade_gym.selfplay.trainer import Trajectory
from spade_trainers.grpo.advantages import advantages, judge


def item(key: str, reward: float, *, group: str = "g", role: str = "agent", advantage: float = 9.0) -> Trajectory:
    return Trajectory(key, role, group, reward, advantage, (), 0)  # type: ignore[arg-type]


def test_rules_by_hand():
    rewards = (1.0, 0.0, 0.0, 1.0)
    assert advantages(rewards, "z-score") == pytest.approx((1, -1, -1, 1), abs=1e-7)
    assert advantages(rewards, "centred") == (0.5, -0.5, -0.5, 0.5)
    # 1 − (0 + 0 + 1) / 3 and 0 − (1 + 0 + 1) / 3
    assert advantages(rewards, "leave-one-out") == pytest.approx((2 / 3, -2 / 3, -2 / 3, 2 / 3))
    assert advantages((0.25, 0.5, 1.5), "leave-one-out") == pytest.approx((-0.75, -0.375, 1.125))


@pytest.mark.parametrize("rule", ["z-score", "centred", "leave-one-out"])
def test_they_sum_to_zero_and_one_alone_or_equal_ones_get_none(rule):
    assert sum(advantages((0.1, 0.7, 0.4, 0.9, 0.3), rule)) == pytest.approx(0, abs=1e-6)
    assert advantages((0.5,), rule) == (0.0,)
    assert advantages((0.3, 0.3, 0.3), rule) == (0.0, 0.0, 0.0)


def test_given_advantages_stay_and_others_are_computed_for_the_agent_group_by_group():
    mine = [item("a", 1.0), item("b", 0.0), item("c", 3.0, group="h"), item("d", 1.0, group="h")]
    designer = item("e", 0.2, role="designer", advantage=-7.0)
    assert [one.advantage for one in judge([*mine, designer], "given", drop_equal_groups=False).trajectories] == [
        9.0, 9.0, 9.0, 9.0, -7.0,
    ]  # fmt: skip
    found = judge([designer, *mine], "centred", drop_equal_groups=False)
    assert [one.advantage for one in found.trajectories] == [-7.0, 0.5, -0.5, 1.0, -1.0]
    assert [one.key for one in found.trajectories] == ["e", "a", "b", "c", "d"]


def test_groups_of_equal_rewards_can_be_left_out():
    mine = [item("a", 1.0), item("b", 1.0), item("c", 0.0, group="h"), item("d", 1.0, group="h")]
    designer = item("e", 0.2, role="designer")
    found = judge([*mine, designer], "given", drop_equal_groups=True)
    assert ([one.key for one in found.trajectories], found.num_dropped) == (["c", "d", "e"], 2)
    assert judge(mine, "given", drop_equal_groups=False).num_dropped == 0


def test_given_computes_nothing():
    with pytest.raises(ValueError, match="the rule 'given' takes the cycle's"):
        advantages((1.0, 0.0), "given")
