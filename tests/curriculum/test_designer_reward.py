import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade_gym.curriculum.designer_reward import designer_advantages, designer_scale
from spade_gym.curriculum.score import Score, Unknown


def test_scale():
    assert designer_scale(20, 192, 4) == pytest.approx(38.4)
    assert designer_scale(24, 192, 8) == 50.0
    assert designer_scale(0, 192, 4) == 1.0
    assert designer_scale(5, 0, 4) == 0.0


@pytest.mark.parametrize(
    ("args", "name"), [((-1, 8, 4), "num_designer"), ((1, -8, 4), "num_agent"), ((1, 8, 0), "num_windows")]
)
def test_scale_refuses(args, name):
    with pytest.raises(ValueError, match=name):
        designer_scale(*args)


def test_the_unknown_take_no_part():
    raw = [Score(1.0, None, 8), Unknown("no hint"), Score(0.5, None, 8), Score(0.9, None, 8)]
    assert designer_advantages(raw, ["a", "a", "a", "b"], scale=4) == (1.0, None, -1.0, 0.0)


def test_bad_input():
    with pytest.raises(ValueError, match="1 rewards and 2 skills"):
        designer_advantages([Score(1.0, None, 1)], ["a", "b"], scale=1)
    with pytest.raises(ValueError, match="raw must be finite"):
        designer_advantages([Score(math.nan, None, 1)], ["a"], scale=1)


@given(st.lists(st.tuples(st.floats(0, 1), st.sampled_from("abc")), max_size=20), st.floats(0, 50))
def test_each_skill_sums_to_zero(rows, scale):
    gains = designer_advantages([Score(v, None, 1) for v, _ in rows], [s for _, s in rows], scale=scale)
    for skill in "abc":
        total = sum(gain for gain, (_, s) in zip(gains, rows, strict=True) if s == skill)
        assert total == pytest.approx(0, abs=1e-9)
    assert all(abs(gain) <= scale + 1e-9 for gain in gains)
