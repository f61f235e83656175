import numpy as np
import pytest

from spade_gym.curriculum.finite import at_least, column, finite, within


def test_names_value_and_place():
    with pytest.raises(ValueError, match=r"x must be finite, got nan at index 1, 0"):
        finite("x", [[1.0, 2.0], [np.nan, 3.0]])
    with pytest.raises(ValueError, match=r"x must be finite, got inf;"):
        finite("x", np.inf)
    with pytest.raises(ValueError, match=r"x must have one dimension, got shape \(1, 2\)"):
        column("x", [[1.0, 2.0]])


def test_ranges():
    at_least("x", 0, 0)
    within("x", 1, 0, 1)
    with pytest.raises(ValueError, match="x must be greater than 0, got 0"):
        at_least("x", 0, 0, strictly=True)
    with pytest.raises(ValueError, match="x must be from 0 to 1, got nan"):
        within("x", np.nan, 0, 1)
