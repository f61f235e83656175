import numpy as np
import pytest

from spade_gym.curriculum.by_window import by_window, latest, measured
from spade_gym.curriculum.outcomes import Outcomes


def test_means_counts_and_pooled_variance():
    windows = by_window(Outcomes.of([0, 1, 1, 0.5], windows=[3, 3, 5, 9]))
    assert windows.numbers.tolist() == [3, 5, 9]
    assert windows.means.tolist() == [0.5, 1.0, 0.5]
    assert windows.num_plays.tolist() == [2, 1, 1]
    assert windows.variance == 0.5  # (0.25 + 0.25) / (4 - 3)


def test_one_play_a_window_has_no_variance():
    assert by_window(Outcomes.of([0, 1], windows=[0, 1])).variance is None
    assert len(by_window(Outcomes.of([])).numbers) == 0


def test_latest():
    outcomes = Outcomes.of([1, 2, 3, 4], windows=[0, 0, 4, 7])
    assert latest(outcomes, 2).returns.tolist() == [3, 4]
    assert latest(outcomes, None) is outcomes
    assert len(latest(outcomes, 9)) == 4
    with pytest.raises(ValueError, match="at least 1"):
        latest(outcomes, 0)


def test_measures():
    outcomes = Outcomes.of([0.5, 1.0])
    assert np.array_equal(measured(outcomes, "win"), [0.0, 1.0])
    with pytest.raises(ValueError, match="'return' or 'win', got 'wins'"):
        measured(outcomes, "wins")  # type: ignore[arg-type]
