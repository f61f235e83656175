from __future__ import annotations

import pytest

from spade_gym.evaluation.unseen_seeds import FIRST_UNSEEN_SEED, MOST_INSTANCES, unseen_seeds
from spade_gym.selfplay.environment import instance_seeds


def test_the_seeds_of_evaluation_lie_above_those_of_training_and_below_what_numpy_takes() -> None:
    for seed in range(50):
        found = unseen_seeds(100, seed=seed)
        assert FIRST_UNSEEN_SEED == 2**31 <= min(found)
        assert max(found) < 2**32
        assert len(set(found)) == 100
    assert max(instance_seeds(0, 3, 5, 10_000)) < FIRST_UNSEEN_SEED


def test_a_longer_list_begins_with_the_shorter_one_and_seeds_differ() -> None:
    assert unseen_seeds(3) == (2**31, 2**31 + 1, 2**31 + 2)
    assert unseen_seeds(9, seed=5)[:4] == unseen_seeds(4, seed=5)
    assert unseen_seeds(4, seed=5) != unseen_seeds(4, seed=6)


@pytest.mark.parametrize(("count", "seed"), [(-1, 0), (MOST_INSTANCES + 1, 0), (1, -1)])
def test_what_is_out_of_range_is_refused(count: int, seed: int) -> None:
    with pytest.raises(ValueError, match="must be"):
        unseen_seeds(count, seed=seed)
