import numpy as np
import pytest

from spade_gym.validation.validate import validate_reply
from spade_trainers.small.families import FAMILIES, THINGS
from spade_trainers.small.lessons import FIRST_DESIGNS, LAST_DESIGNS, PLAYED, SKILL_FAMILIES
from spade_trainers.small.suite import TIERS, suite_orders


@pytest.mark.parametrize("length", [2, 3, 5, 7])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_passes_every_check(family: str, length: int) -> None:
    made = FAMILIES[family](np.random.default_rng(length), "coins", length)
    verdict = validate_reply(f"```python\n{made.source}```", name=family, setting="multi_turn", skill=made.skill)
    assert verdict.accepted, [finding.message for finding in verdict.failures]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_writes_many_programs_and_each_is_about_its_thing(family: str) -> None:
    rng = np.random.default_rng(0)
    made = [FAMILIES[family](rng, thing, 3) for thing in THINGS[:6] for _ in range(6)]
    assert len({item.source for item in made}) > 12
    assert all(item.thing in item.source and item.length == 3 for item in made)


def test_every_family_trains_one_skill_under_which_it_is_listed() -> None:
    rng = np.random.default_rng(0)
    found = {(FAMILIES[name](rng, "gems", 3).skill, name) for name in FAMILIES}
    assert found == {(skill, name) for skill, names in SKILL_FAMILIES.items() for name in names}


def test_the_warm_start_holds_nothing_of_the_hardest_tier() -> None:
    assert max(FIRST_DESIGNS.longest, LAST_DESIGNS.longest, *PLAYED) < min(TIERS["beyond"])
    for shares in (FIRST_DESIGNS.shares, LAST_DESIGNS.shares, PLAYED):
        assert sum(shares.values()) == pytest.approx(1)


def test_the_suite_is_the_same_every_time() -> None:
    orders = suite_orders(["Logical Deduction"], programs=2, instances=3)
    assert len(orders) == 7 * 2 * 3  # lengths × programs × instances
    assert orders == suite_orders(["Logical Deduction"], programs=2, instances=3)
    assert len({order.key for order in orders}) == len(orders)
