import argparse
from typing import Any

import pytest

from spade_gym.selfplay.recipe_file import read_recipe
from spade_trainers.small import ablations
from spade_trainers.small.ablations import ARMS, HEADLINE, Job, measure_of, paired_interval, summary

stats = pytest.importorskip("scipy")


def result(medium: float, beyond: float) -> dict[str, Any]:
    return {"tiers": {"easy": 1.0, "medium": medium, "beyond": beyond}, "cpu_seconds": 10.0}


def test_the_paired_interval_is_students() -> None:
    # mean 0.2, standard deviation 0.1, n = 3: half width 4.3027 · 0.1 / √3
    found = paired_interval([0.1, 0.2, 0.3])
    assert found["mean"] == pytest.approx(0.2)
    assert found["high"] - found["mean"] == pytest.approx(4.30265 * 0.1 / 3**0.5, rel=1e-4)


def test_arms_are_compared_on_the_seeds_that_both_have() -> None:
    found = summary({
        Job("full", 0): result(0.6, 0.2), Job("full", 1): result(0.8, 0.4), Job("full", 2): result(0.9, 0.9),
        Job("static pool", 0): result(0.5, 0.1), Job("static pool", 1): result(0.5, 0.1),
    })["arms"]  # fmt: skip
    assert found["full"]["measure"] == pytest.approx((0.4 + 0.6 + 0.9) / 3)
    assert found["static pool"]["full_minus_this"]["mean"] == pytest.approx((0.1 + 0.3) / 2)
    assert "full_minus_this" not in found["full"]


def test_the_measure_leaves_the_easy_tier_out() -> None:
    assert measure_of(result(0.5, 0.25)) == pytest.approx(0.375)


@pytest.mark.parametrize("arm", ARMS)
def test_every_arm_is_a_recipe_and_plays_and_updates_as_often(arm: str) -> None:
    full, other = read_recipe("small"), read_recipe("small", ARMS[arm])
    for name in ("rollouts", "environments", "plays", "hint_plays", "regenerate_every"):
        assert getattr(other.cycle, name) == getattr(full.cycle, name)
    assert (other.digest == full.digest) == (arm == "full")


def test_a_static_pool_holds_as_many_programs_as_a_full_run_writes() -> None:
    full, static = (read_recipe("small", ARMS[arm]).cycle for arm in HEADLINE)
    assert static.fixed_programs == full.environments * -(-full.rollouts // full.regenerate_every)


def test_the_command_declares_its_arguments() -> None:
    parser = argparse.ArgumentParser()
    ablations.add_arguments(parser)
    assert parser.parse_args(["--headline"]).seeds == 8
