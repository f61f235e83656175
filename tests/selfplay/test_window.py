from __future__ import annotations

from typing import Any

import pytest

from spade_gym.curriculum.score import Score, Unknown
from spade_gym.programs.program import Manifest, Program
from spade_gym.rollout.play import Play
from spade_gym.selfplay.environment import Environment, instance_seeds, play_orders
from spade_gym.selfplay.recipe import RewardSettings
from spade_gym.selfplay.settings_table import RecipeError
from spade_gym.selfplay.window import Window, Worth, check_reward


def environment(index: int = 0) -> Environment:
    program = Program(f"x = {index}\n", Manifest(name="X", setting="single_turn", class_name="XEnv", hint="Think."))
    return Environment(index, program, "Logical Deduction", f"design/0/{index}/0", 0)


def play(rollout: int, arm: str, number: int, total: float, **changes: Any) -> Play:
    values: dict[str, Any] = {
        "key": f"play/{rollout}/0/{arm}/{number}", "digest": "d", "seed": 100 * rollout + number, "arm": arm,
        "total": total, "won": total >= 0.999, "length": 1, "status": "ok", "fault": "", "ended": "terminated",
        "turns": (), "samples": (), "policy_version": 0, "prompt_tokens": 0, "completion_tokens": 0, "seconds": 0.0,
    }  # fmt: skip
    return Play(**{**values, **changes})


def worth(plays: dict[int, list[Play]], settings: RewardSettings | None = None) -> Worth:
    window = Window(0, 0, [environment()])
    for rollout, mine in plays.items():
        window.add(rollout, mine)
    return window.worths(settings or RewardSettings(options={"pairing": "paired"}))[0]


def test_reward_is_the_blend_of_the_windows_win_rate_and_the_regret_of_its_first_rollout() -> None:
    first = [play(0, "hint", n, total) for n, total in enumerate([1, 1, 1, 0])]
    first += [play(0, "plain", n, total) for n, total in enumerate([0, 1, 0, 0])]
    later = [play(1, "plain", n, total) for n, total in enumerate([1, 1, 1, 0])]
    found = worth({0: first, 1: later})
    assert found.wins is not None
    assert found.wins.share == 0.5  # 4 of 8 without the hint
    assert isinstance(found.regret, Score)
    assert found.regret.value == pytest.approx(0.5)  # 3/4 with, 1/4 without, at the regeneration
    assert isinstance(found.reward, Score)
    assert found.reward.value == pytest.approx(0.6 * 1 + 0.4 * 1)
    assert found.num_dropped == 0


def test_a_fault_at_the_regeneration_is_out_of_both_arms_and_later_ones_only_of_their_own() -> None:
    first = [play(0, "hint", 0, 1.0), play(0, "hint", 1, 0.0), play(0, "hint", 2, 1.0)]
    first += [play(0, "plain", 0, 1.0), play(0, "plain", 1, 0.0, status="env_error"), play(0, "plain", 2, 0.0)]
    later = [play(1, "plain", 0, 0.0, status="timeout"), play(1, "plain", 1, 1.0)]
    found = worth({0: first, 1: later})
    assert found.num_dropped == 3
    assert isinstance(found.regret, Score)
    assert found.regret.value == pytest.approx(0.5)  # instances 0 and 2: (0 + 1) / 2
    assert found.wins is not None
    assert (found.wins.share, found.wins.n) == (pytest.approx(2 / 3), 3)


def test_a_program_that_fails_often_earns_nothing_by_its_other_plays() -> None:
    first = [play(0, "hint", n, 1.0) for n in range(8)]
    first += [play(0, "plain", n, 0.0, status="env_error" if n < 3 else "ok") for n in range(8)]
    found = worth({0: first})
    assert found.num_dropped == 6
    assert isinstance(found.reward, Unknown)
    assert "38% of its plays do not count" in found.reward.reason


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (RewardSettings(options={"lo": 0.2}), "no option 'lo'"),
        (RewardSettings(options={"pairing": "twins"}), "pairing"),
        (RewardSettings(options={"low": 0.9}), "low must not be greater"),
        (RewardSettings(max_scale=-1.0), "max_scale"),
    ],
)
def test_a_reward_is_tried_before_anything_is_spent(settings: RewardSettings, told: str) -> None:
    with pytest.raises(RecipeError, match=told):
        check_reward(settings)
    check_reward(RewardSettings())


def test_a_missing_arm_is_no_regret_of_zero() -> None:
    found = worth({0: [play(0, "plain", n, 0.0) for n in range(4)]})
    assert isinstance(found.regret, Unknown)
    assert isinstance(found.reward, Unknown)
    assert found.reward.reason
    assert isinstance(worth({}).reward, Unknown)


def test_the_paper_recipes_take_mean_scores_and_plain_differences() -> None:
    first = [play(0, "hint", n, 0.5) for n in range(4)] + [play(0, "plain", n, 0.5) for n in range(2)]
    found = worth({0: first}, RewardSettings(options={"of": "return", "pairing": "plain"}))
    assert isinstance(found.reward, Score)
    assert found.reward.value == pytest.approx(0.6)  # the plateau at .5, no regret
    assert found.wins is not None
    assert found.wins.constant_return == 0.5


def test_shrinkage_pulls_a_lucky_regret_towards_what_the_pool_shows() -> None:
    window = Window(0, 0, [environment(index) for index in range(6)])
    for index in range(6):
        lucky = 1.0 if index == 0 else 0.0
        rows = [("hint", n, lucky if n == 0 else float(n % 2)) for n in range(8)]
        rows += [("plain", n, 0.0 if n == 0 else float(n % 2)) for n in range(8)]
        window.add(0, [play(0, arm, n, total, key=f"play/0/{index}/{arm}/{n}") for arm, n, total in rows])
    plain = window.worths(RewardSettings(options={"pairing": "paired"}))
    shrunk = window.worths(RewardSettings(options={"pairing": "paired"}, shrink=True))
    before, after = plain[0].regret, shrunk[0].regret
    assert isinstance(before, Score)
    assert isinstance(after, Score)
    assert before.value == pytest.approx(1 / 8)
    assert 0 <= after.value < before.value


def test_seeds_depend_on_the_place_alone_and_a_longer_list_begins_with_the_shorter() -> None:
    assert instance_seeds(7, 3, 2, 16)[:4] == instance_seeds(7, 3, 2, 4)
    lists = {
        tuple(instance_seeds(seed, rollout, index, 4)) for seed in (0, 1) for rollout in (0, 1) for index in (0, 1)
    }
    assert len(lists) == 8


def test_orders_of_both_arms_share_instances_but_not_draws() -> None:
    plain = play_orders([environment()], seed=1, rollout=0, arm="plain", count=4)
    hinted = play_orders([environment()], seed=1, rollout=0, arm="hint", count=4)
    assert [order.seed for order in plain] == [order.seed for order in hinted]
    assert len({order.sampling_seed for order in plain + hinted}) == 8
    assert [order.key for order in hinted] == [f"play/0/0/hint/{n}" for n in range(4)]
