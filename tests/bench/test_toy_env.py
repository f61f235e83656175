from __future__ import annotations

import numpy as np
import pytest

from spade_gym.bench.toy_env import ToyEnv
from spade_gym.bench.toy_training import Mastery, teach


def student(**settings: object) -> ToyEnv:
    return ToyEnv(np.random.default_rng(0), **settings)  # type: ignore[arg-type]


def test_a_cell_is_learned_when_the_one_before_is_known() -> None:
    env = student()
    assert env.play((1, 1)).total == 0.0
    for number in range(1, 75):
        assert env.play((0, 0)).total == number / 100
    assert env.play((1, 0)).total == 0.0
    assert env.play((0, 0)).total == 0.75
    assert env.mastered == 0.0  # above 75, not at 75
    for cell in ((1, 0), (0, 1), (1, 1)):
        assert env.play(cell).total == 0.01
    for cell in ((2, 0), (2, 2), (0, 2)):
        assert env.play(cell).total == 0.0
    for _ in range(99):
        result = env.play((0, 0))
    assert result == (1.0, True)
    assert env.competence[0, 0] == 100
    assert env.mastered == 1.0


def test_what_is_not_trained_on_teaches_nothing() -> None:
    assert student().play((0, 0), train=False).total == 0.0
    assert student(always_teaches=True).play((0, 0), train=False).total == 0.01


def test_bernoulli_feedback_is_a_win_with_the_competence_as_chance() -> None:
    env = student(feedback="bernoulli")
    env.competence[0, 0] = 30
    results = [env.play((0, 0), train=False) for _ in range(4000)]
    assert {result.total for result in results} == {0.0, 1.0}
    assert all(result.won == (result.total == 1.0) for result in results)
    assert np.mean([result.won for result in results]) == pytest.approx(0.3, abs=0.03)


def test_three_dimensions() -> None:
    env = student(num_cells=2, num_dimensions=3)
    for _ in range(76):
        env.play((0, 0, 0))
    assert env.mastered == 12.5
    assert env.play((1, 1, 1)).total == 0.01


@pytest.mark.parametrize("name", ["uniform", "plr", "accel", "rlve-window"])
def test_teaching_is_deterministic_and_counts_what_is_trained(name: str) -> None:
    found = [teach(name, feedback="bernoulli", seed=3, num_episodes=400) for _ in range(2)]
    assert found[0] == found[1]
    assert isinstance(found[0], Mastery)
    assert (found[0].trained_share == 1.0) == (name != "accel")


def test_the_default_masters_more_than_uniform() -> None:
    uniform = teach("uniform", feedback="noiseless", seed=0, num_episodes=6000).mastered
    assert teach("plr", feedback="noiseless", seed=0, num_episodes=6000).mastered >= uniform + 20
