import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade_gym.curriculum.agents_scorers import paired_agents_regret, population_regret
from spade_gym.curriculum.score import Score, Unknown


def test_population_regret_by_hand():
    # means 0.5, 1.0, 0.0: best 1.0, average 0.5
    assert population_regret([[0, 1], [1], [0, 0]]) == Score(0.5, None, 5)
    assert population_regret([[0.5], [0.5]]).value == 0.0


def test_population_regret_needs_agents_with_plays():
    assert population_regret([[1.0]]) == Unknown("population regret needs two agents, there are 1", 1)
    assert population_regret([[1.0], []]) == Unknown("agent 1 has no plays", 1)
    assert isinstance(population_regret([]), Unknown)


def test_paired_regret_by_hand():
    assert paired_agents_regret([0, 1], [0.5, 0.0]) == Score(0.75, None, 4)
    score = paired_agents_regret([0, 1], [0.5, 0.0], best="mean")
    assert score.value == 0.25
    assert score.standard_error == pytest.approx(math.sqrt(0.5 / 2 + 0.125 / 2))
    assert paired_agents_regret([0.0], [1.0]).value == -1.0


def test_bad_input():
    assert paired_agents_regret([], [1.0]) == Unknown("the antagonist has no plays", 1)
    assert paired_agents_regret([1.0], []) == Unknown("the protagonist has no plays", 1)
    with pytest.raises(ValueError, match="antagonist must be finite"):
        paired_agents_regret([math.nan], [1.0])
    with pytest.raises(ValueError, match="agent 1 must be finite"):
        population_regret([[1.0], [math.inf]])
    with pytest.raises(ValueError, match="'max' or 'mean'"):
        paired_agents_regret([1.0], [1.0], best="median")  # type: ignore[arg-type]


@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=5), min_size=2, max_size=5))
def test_ranges(returns):
    assert -1e-12 <= population_regret(returns).value <= 1
    assert -1 <= paired_agents_regret(returns[0], returns[1]).value <= 1
