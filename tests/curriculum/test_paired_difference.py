import math

import numpy as np
import pytest

from spade_gym.curriculum.paired_difference import paired_difference, unpaired_difference


def test_unpaired_by_hand():
    # means 0.75 and 0.25; variances 0.25 and 0.25 of 4 each: sqrt(0.125)
    found = unpaired_difference([1, 1, 1, 0], [0, 0, 0, 1])
    assert (found.mean, found.num_plays) == (0.5, 8)
    assert found.standard_error == pytest.approx(math.sqrt(0.125))
    assert unpaired_difference([1], [0, 1]).standard_error is None


def test_paired_by_hand():
    # seeds 1, 2, 3: differences 1, 0, 0.5 (seed 3 was played twice with the hint)
    found = paired_difference([1, 1, 1, 0], np.array([1, 2, 3, 3]), [0, 1, 0, 9], np.array([1, 2, 3, 8]))
    assert found.mean == 0.5
    assert found.standard_error == pytest.approx(0.5 / math.sqrt(3))
    assert (found.num_plays, found.variances, found.counts) == (7, (0.25,), (3,))


def test_one_pair_has_no_error_and_none_no_difference():
    assert paired_difference([1], np.array([4]), [0], np.array([4])).standard_error is None
    assert paired_difference([1], np.array([4]), [0], np.array([5])) is None
    assert paired_difference([], np.array([], dtype=int), [0], np.array([5])) is None


def test_order_does_not_matter():
    rng = np.random.default_rng(0)
    a, b, seeds = rng.random(20), rng.random(20), np.arange(20)
    order = rng.permutation(20)
    assert paired_difference(a, seeds, b[order], order).mean == pytest.approx((a - b).mean())


def test_bad_input():
    with pytest.raises(ValueError, match="both arms need plays, got 0 and 1"):
        unpaired_difference([], [1.0])
    with pytest.raises(ValueError, match="values must be finite"):
        unpaired_difference([math.nan], [1.0])
    with pytest.raises(ValueError, match="2 returns and 1 seeds"):
        paired_difference([1, 2], np.array([1]), [1], np.array([1]))
