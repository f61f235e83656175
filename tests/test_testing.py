from __future__ import annotations

import functools

import numpy as np
import pytest

from spade_gym.curriculum.generators import Listed, Parameters, SlidingDifficulty
from spade_gym.curriculum.preset import _SAMPLERS, _SCHEDULES
from spade_gym.curriculum.score import Score, Unknown
from spade_gym.curriculum.scorers import BUILT_IN
from spade_gym.curriculum.task import Task
from spade_gym.testing import check_generator, check_sampler, check_schedule, check_scorer


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_built_in_scorers_conform(name: str) -> None:
    check_scorer(BUILT_IN[name])


@pytest.mark.parametrize("name", sorted(_SAMPLERS))
def test_built_in_samplers_conform(name: str) -> None:
    check_sampler(_SAMPLERS[name]())


@pytest.mark.parametrize("name", sorted(_SCHEDULES))
def test_built_in_schedules_conform(name: str) -> None:
    check_schedule(_SCHEDULES[name])


@pytest.mark.parametrize(
    "make",
    [
        functools.partial(Listed, [Task("reset", {"level": level}) for level in range(5)]),
        functools.partial(Parameters, {"a": (0, 9), "b": (0.0, 1.0), "c": ["x", "y"]}),
        functools.partial(SlidingDifficulty, high=3),
    ],
)
def test_built_in_generators_conform(make) -> None:
    check_generator(make)


@pytest.mark.parametrize(
    ("scorer", "complaint"),
    [
        (lambda outcomes: 0.5, "must return Score or Unknown"),
        (lambda outcomes: Score(float("nan"), None, 1), "must be finite"),
        (lambda outcomes: Unknown(""), "needs a reason"),
        (lambda outcomes: Score(0.0, None, 1) if len(outcomes) else Score(0.0, None, 0), "n must be from 1"),
        (lambda outcomes: Score(0.5, -1.0, 1) if len(outcomes) else Unknown("none"), "standard_error"),
    ],
)
def test_bad_scorers_are_told_what_is_wrong(scorer, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        check_scorer(scorer)


class Short:
    def probabilities(self, memory, *, now):
        return np.ones(1)


class Unbalanced:
    def probabilities(self, memory, *, now):
        return np.full(len(memory), 0.9)


@pytest.mark.parametrize(("sampler", "complaint"), [(Short(), "must have shape"), (Unbalanced(), "must sum to 1")])
def test_bad_samplers_are_told_what_is_wrong(sampler, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        check_sampler(sampler)
