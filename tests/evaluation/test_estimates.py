from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade_gym.evaluation.estimates import mean_over_tasks, pass_at_k


def test_pass_at_k_by_hand() -> None:
    assert pass_at_k(4, 1, 1) == pytest.approx(0.25)
    assert pass_at_k(4, 1, 2) == pytest.approx(0.5)  # 1 - C(3, 2)/C(4, 2) = 1 - 3/6
    assert pass_at_k(4, 2, 2) == pytest.approx(5 / 6)  # 1 - 1/6
    assert pass_at_k(4, 3, 2) == 1.0
    assert pass_at_k(32, 0, 32) == 0.0


@given(st.integers(1, 7).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_is_the_share_of_all_subsets_that_hold_a_right_answer(case: tuple[int, int, int]) -> None:
    n, right, k = case
    subsets = list(combinations([number < right for number in range(n)], k))
    assert pass_at_k(n, right, k) == pytest.approx(np.mean([any(subset) for subset in subsets]))


@pytest.mark.parametrize(("n", "c", "k"), [(4, 5, 1), (4, -1, 1), (4, 1, 5), (4, 1, 0)])
def test_pass_at_k_refuses_what_is_out_of_range(n: int, c: int, k: int) -> None:
    with pytest.raises(ValueError, match="must be from"):
        pass_at_k(n, c, k)


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    """Clusters of 8 tasks that go together: an interval over single tasks would cover far less than 95 %."""
    rng = np.random.default_rng(1)
    covered = alone = 0
    for number in range(100):
        levels = (rng.random(30) < 0.5).astype(float)
        data = np.repeat(levels, 4).tolist()
        found = mean_over_tasks(data, [str(task // 4) for task in range(120)])
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 0.5 <= found.high
        if number < 30:
            single = mean_over_tasks(data, [str(task) for task in range(120)])
            assert single.low is not None
            assert single.high is not None
            alone += single.low <= 0.5 <= single.high
    assert covered >= 88
    assert alone <= 26


def test_the_bootstrap_agrees_with_the_normal_interval_of_many_clusters() -> None:
    values = (np.arange(400) % 4 == 0).astype(float).tolist()
    found = mean_over_tasks(values, [str(number) for number in range(400)])
    assert found.value == 0.25
    assert found.interval == "bootstrap"
    half = 1.96 * (0.25 * 0.75 / 400) ** 0.5  # 0.0424
    assert found.low == pytest.approx(0.25 - half, abs=0.004)
    assert found.high == pytest.approx(0.25 + half, abs=0.004)
    assert mean_over_tasks(values, [str(number) for number in range(400)]) == found


def test_clusters_of_different_size_weigh_by_their_tasks() -> None:
    found = mean_over_tasks([1.0, 0.0, 0.0, 0.0], ["a", "b", "b", "b"])
    assert found.value == 0.25
    assert (found.low, found.high) == (0.0, 1.0)  # a resample may be only a, or only b
    assert found.num_clusters == 2


def test_where_a_resample_cannot_differ_no_interval_is_invented() -> None:
    never = mean_over_tasks([0.0] * 6, list("aabbcc"))
    assert never.interval == "wilson"
    assert never.low == 0.0
    assert never.high == pytest.approx(3.8415 / (3 + 3.8415), abs=1e-4)  # z^2 / (n + z^2) of 3 clusters
    same = mean_over_tasks([0.5, 0.5], ["a", "b"])
    assert (same.value, same.low, same.high) == (0.5, None, None)
    one = mean_over_tasks([0.5, 0.25], ["a", "a"])
    assert (one.low, one.num_clusters) == (None, 1)
    difference = mean_over_tasks([1.0, 1.0], ["a", "b"], is_share=False)
    assert (difference.value, difference.low) == (1.0, None)
    nothing = mean_over_tasks([], [])
    assert (nothing.value, nothing.num_tasks) == (None, 0)
