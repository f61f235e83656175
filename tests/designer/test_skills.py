from __future__ import annotations

import numpy as np
import pytest

from spade_gym.designer.domains import DOMAINS, VARIANTS, draw_domain, draw_variant
from spade_gym.designer.skills import (
    DIFFICULTY_DESCRIPTIONS,
    SKILLS,
    check_skills,
    draw_difficulty,
    skill_of_environment,
    skills_of,
    skills_of_epoch,
)
from spade_gym.types import GAME_SKILLS, TOOL_SKILLS


def test_every_skill_is_described_and_has_concepts() -> None:
    assert set(SKILLS) == {*GAME_SKILLS, *TOOL_SKILLS}
    assert len({skill.description for skill in SKILLS.values()}) == 12
    assert all(len(skill.concepts) >= 4 for skill in SKILLS.values())


@pytest.mark.parametrize(("epoch", "places"), [(0, (0, 1, 2)), (1, (3, 4, 5)), (2, (0, 1, 2)), (7, (3, 4, 5))])
def test_skills_rotate_three_by_three(epoch: int, places: tuple[int, ...]) -> None:
    assert skills_of_epoch(epoch, GAME_SKILLS) == tuple(GAME_SKILLS[place] for place in places)


def test_the_rotation_wraps_where_the_count_does_not_divide() -> None:
    assert [skills_of_epoch(epoch, "abcde", count=3) for epoch in range(3)] == [
        ("a", "b", "c"), ("d", "e", "a"), ("b", "c", "d"),
    ]  # fmt: skip


def test_environments_take_the_chosen_skills_in_turn() -> None:
    assert [skill_of_environment(index, ("x", "y", "z")) for index in range(5)] == ["x", "y", "z", "x", "y"]


def test_what_cannot_be_asked_for_is_refused() -> None:
    with pytest.raises(ValueError, match="count must be from 1 to the number of skills, 2, got 3"):
        skills_of_epoch(0, ("a", "b"))
    with pytest.raises(ValueError, match="epoch must be 0 or more, got -1"):
        skills_of_epoch(-1, GAME_SKILLS)
    with pytest.raises(ValueError, match="'Data Retrieval' is no skill of the setting multi_turn"):
        check_skills(["Data Retrieval"], "multi_turn")
    with pytest.raises(ValueError, match="different"):
        check_skills([GAME_SKILLS[0]] * 2, "single_turn")
    assert skills_of("tool_use") == TOOL_SKILLS


def test_draws_follow_their_weights_and_repeat_with_the_seed() -> None:
    rng = np.random.default_rng(5)
    variants = [draw_variant(rng) for _ in range(7_000)]
    for name, expected in zip(VARIANTS, (3_000, 2_000, 1_000, 1_000), strict=True):
        assert abs(variants.count(name) - expected) < 160  # four standard deviations
    domains = [draw_domain(rng) for _ in range(2_000)]
    assert set(domains) == set(DOMAINS)
    assert len(DOMAINS) == 10
    difficulties = [draw_difficulty(rng) for _ in range(300)]
    assert set(difficulties) == set(DIFFICULTY_DESCRIPTIONS)
    assert draw_difficulty(rng, ("hard",)) == "hard"
    assert [draw_variant(np.random.default_rng(1)) for _ in range(2)] == [draw_variant(np.random.default_rng(1))] * 2
