import numpy as np
import pytest

from spade_gym.curriculum.instances import check_bimodality
from spade_gym.curriculum.outcomes import Outcomes
from spade_gym.curriculum.score import Unknown


def played(*instances):
    """Outcomes of instances, each given as its results."""
    seeds = [seed for seed, results in enumerate(instances) for _ in results]
    return Outcomes.of([r for results in instances for r in results], seeds=seeds)


def test_half_always_and_half_never_is_bimodal():
    found = check_bimodality(played([1, 1], [1, 1], [0, 0], [0, 0]))
    assert (found.within, found.within_share, found.is_bimodal) == (0.0, 0.0, True)
    assert found.between == pytest.approx(1 / 3)  # s² of 1, 1, 0, 0
    assert found.num_instances == 4


def test_even_instances_are_not():
    found = check_bimodality(played([1, 0], [0, 1], [1, 0]))
    assert (found.within, found.between, found.within_share, found.is_bimodal) == (0.5, 0.0, 1.0, False)


def test_a_mixture_by_hand():
    # shares 1, 1/2: v = 0, 1/2; s² = 1/8; between 1/8 - (0 + 1/4)/2 = 0; within 1/4
    found = check_bimodality(played([1, 1], [1, 0]))
    assert (found.within, found.between) == (0.25, 0.0)


def test_the_split_is_right_on_average():
    rng = np.random.default_rng(0)
    chances = rng.beta(0.25, 0.25, 3000)  # concentration 0.5 around 1/2: a third of the variance is within
    plays = rng.random((3000, 3)) < chances[:, None]
    found = check_bimodality(played(*plays.astype(float).tolist()))
    assert found.within_share == pytest.approx(1 / 3, abs=0.03)


def test_unknown():
    assert isinstance(check_bimodality(Outcomes.of([1, 0])), Unknown)
    assert isinstance(check_bimodality(played([1, 0])), Unknown)
    assert check_bimodality(played([1, 1], [1, 1])) == Unknown("all plays ended alike", 4)
    with pytest.raises(ValueError, match="least must be from 0 to 1"):
        check_bimodality(played([1, 0], [1, 0]), least=2)
