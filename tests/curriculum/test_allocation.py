import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade_gym.curriculum.allocation import halving_sizes, screening, sequential_halving


def test_sizes():
    assert halving_sizes(24, 3) == (24, 12, 6)
    assert halving_sizes(5, 3) == (5,)
    assert halving_sizes(7, 1) == (7, 4, 2)
    assert halving_sizes(1, 1) == (1,)
    with pytest.raises(ValueError, match=r"keep must be from 1 to the number of tasks \(2\), got 3"):
        halving_sizes(2, 3)


def test_halving_by_hand():
    everyone = np.ones(4, dtype=bool)
    first = sequential_halving(np.zeros(4), everyone, round_index=0, budget=19, keep=1)
    # rounds of 4 and 2 tasks: 9 plays, then 10
    assert first.extra.tolist() == [3, 2, 2, 2]
    second = sequential_halving([0.1, 0.4, 0.3, 0.2], first.alive, round_index=1, budget=19, keep=1)
    assert second.alive.tolist() == [False, True, True, False]
    assert second.extra.tolist() == [0, 5, 5, 0]
    last = sequential_halving([0.1, 0.4, 0.3, 0.2], second.alive, round_index=2, budget=19, keep=1)
    assert last.extra.sum() == 0


def test_the_dropped_stay_out():
    alive = np.array([True, False, True, False])
    found = sequential_halving([0.1, 0.9, 0.2, 0.8], alive, round_index=1, budget=10, keep=1)
    assert found.alive.tolist() == [True, False, True, False]


def test_screening_by_hand():
    # bounds ± 0.1: [0.4, 0.6] [0.3, 0.5] [0.0, 0.2] [0.25, 0.45]; 2nd highest lower bound 0.3
    found = screening([0.5, 0.4, 0.1, 0.35], [0.1] * 4, np.ones(4, bool), keep=2, round_plays=3, budget_left=100, z=1)
    assert found.alive.tolist() == [True, True, False, True]
    assert found.extra.tolist() == [3, 3, 0, 3]


def test_screening_ends():
    sure = screening([0.9, 0.1], [0.01, 0.01], np.ones(2, bool), keep=1, round_plays=3, budget_left=100)
    assert sure.alive.tolist() == [True, False]
    assert sure.extra.sum() == 0
    broke = screening([0.5, 0.4], [1, 1], np.ones(2, bool), keep=1, round_plays=3, budget_left=4)
    assert broke.extra.tolist() == [3, 1]
    nothing = screening([0.5, 0.4], [1, 1], np.ones(2, bool), keep=1, round_plays=3, budget_left=0)
    assert nothing.extra.sum() == 0


def test_pools_are_independent():
    values, errors = np.array([[0.9, 0.1, 0.5], [0.1, 0.9, 0.5]]), np.full((2, 3), 0.01)
    found = screening(values, errors, np.ones((2, 3), bool), keep=1, round_plays=1, budget_left=[9, 9])
    assert found.alive.tolist() == [[True, False, False], [False, True, False]]


def test_bad_input():
    with pytest.raises(ValueError, match="errors must not be negative"):
        screening([0.1], [-0.1], [True], keep=1, round_plays=1, budget_left=1)
    with pytest.raises(ValueError, match="round_plays"):
        screening([0.1], [0.1], [True], keep=1, round_plays=0, budget_left=1)
    with pytest.raises(ValueError, match="keep"):
        screening([0.1], [0.1], [True], keep=2, round_plays=1, budget_left=1)
    with pytest.raises(ValueError, match="values must be finite"):
        sequential_halving([np.nan], [True], round_index=0, budget=1, keep=1)


@given(st.integers(1, 30), st.integers(1, 5), st.integers(0, 400), st.integers(0, 1000))
def test_halving_spends_the_budget_and_keeps_enough(num_tasks, keep, budget, seed):
    keep = min(keep, num_tasks)
    rng = np.random.default_rng(seed)
    alive, spent = np.ones(num_tasks, dtype=bool), 0
    for round_index in range(len(halving_sizes(num_tasks, keep))):
        alive, extra = sequential_halving(
            rng.random(num_tasks), alive, round_index=round_index, budget=budget, keep=keep
        )
        assert (extra[~alive] == 0).all()
        assert extra[alive].max() - extra[alive].min() <= 1
        spent += extra.sum()
    assert spent == budget
    assert alive.sum() >= keep


@given(st.integers(1, 12), st.integers(1, 4), st.integers(0, 50), st.integers(0, 1000))
def test_screening_keeps_the_best_and_the_budget(num_tasks, keep, left, seed):
    keep = min(keep, num_tasks)
    rng = np.random.default_rng(seed)
    values, errors = rng.random(num_tasks), rng.random(num_tasks)
    found = screening(values, errors, np.ones(num_tasks, bool), keep=keep, round_plays=3, budget_left=left)
    assert found.alive.sum() >= keep
    assert found.alive[np.argsort(-values)[:keep]].all()
    assert found.extra.sum() <= left
