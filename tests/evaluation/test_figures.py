from __future__ import annotations

import pytest

from spade_gym.evaluation.figures import comparison, figures
from spade_gym.evaluation.settings import pass_ks
from spade_gym.evaluation.suite import Result, Task

TASKS = [Task("a", "easy", "a"), Task("b", "easy", "b"), Task("c", "hard", "c")]


def rows(task: int, *scores: float | None) -> list[Result]:
    return [
        Result(task, sample, score, score == 1.0, "faulty" if score is None else "answered", completion_tokens=2)
        for sample, score in enumerate(scores)
    ]


def test_figures_by_hand() -> None:
    found = figures(TASKS, [*rows(0, 1, 1, 0, 0), *rows(1, 0.5, 0, 0, 0), *rows(2, 1, 1, 1, 1)], (2, 4))
    assert found.avg.value == pytest.approx((0.5 + 0 + 1) / 3)
    assert found.score.value == pytest.approx((0.5 + 0.125 + 1) / 3)
    assert found.pass_at[2].value == pytest.approx((5 / 6 + 0 + 1) / 3)
    assert found.pass_at[4].value == pytest.approx(2 / 3)
    assert [(group.name, group.avg, group.num_tasks) for group in found.groups] == [("easy", 0.25, 2), ("hard", 1.0, 1)]
    assert found.avg_bounds == (pytest.approx(0.5), pytest.approx(0.5))
    assert found.completion_tokens == 24
    assert found.ended == {"answered": 12}


def test_a_fault_is_no_zero_and_bounds_tell_what_it_could_be() -> None:
    found = figures(TASKS, [*rows(0, 1, None), *rows(1, None, None), *rows(2, 0, 0)], (2,))
    assert found.avg.value == pytest.approx((1 + 0) / 2)
    assert found.avg.num_tasks == 2
    assert found.num_faulty == 3
    assert found.avg_bounds == (pytest.approx(0.5 / 3), pytest.approx(2 / 3))
    assert (found.pass_at[2].value, found.pass_at[2].num_tasks) == (0.0, 1)
    assert [task for task, _ in found.faults] == ["a", "b", "b"]


def test_the_difference_is_paired_and_drops_both_halves_of_a_pair() -> None:
    ours = [*rows(0, 1, 1), *rows(1, 1, None), *rows(2, 1, 0)]
    theirs = [*rows(0, 0, 1), *rows(1, 1, 0), *rows(2, None, 0)]
    found = comparison(TASKS, ours, theirs, (2,))
    assert found.avg.value == pytest.approx((0.5 + 0 + 0) / 3)
    assert (found.num_pairs, found.num_dropped) == (4, 2)
    assert found.pass_at[2].num_tasks == 1
    assert found.pass_at[2].value == 0.0


def test_nothing_was_asked() -> None:
    found = figures(TASKS, [], (1,))
    assert found.avg.value is None
    assert found.avg_bounds is None
    assert comparison(TASKS, [], [], (1,)).avg.value is None


def test_which_passes_are_reported() -> None:
    assert pass_ks(1) == (1,)
    assert pass_ks(2) == (2,)
    assert pass_ks(12) == (2, 4, 8, 12)
    assert pass_ks(32) == (2, 4, 8, 16, 32)
