from __future__ import annotations

import math
import os
import subprocess
import sys
from typing import NamedTuple

import pytest

from spade_gym.models.base import ModelError, Sampling
from spade_gym.models.vllm_logprobs import logprobs_of
from spade_gym.models.vllm_model import VllmModel


class Flat(NamedTuple):
    """As vLLM's ``FlatLogprobs``: of each token the sampled one, then the candidates."""

    logprobs: list[float]
    start_indices: list[int]
    end_indices: list[int]


def flat(*tokens: list[float]) -> Flat:
    values = [math.log(value) if value > 0 else -math.inf for token in tokens for value in token]
    ends = [sum(len(token) for token in tokens[: number + 1]) for number in range(len(tokens))]
    return Flat(values, [0, *ends[:-1]], ends)


def probabilities(values: tuple[float, ...] | None) -> list[float]:
    assert values is not None
    return [round(math.exp(value), 6) for value in values]


def test_what_was_kept_is_renormalised() -> None:
    # Of 0.5, 0.3, 0.2 the first two were kept: 0.3 becomes 0.3 / 0.8.
    tokens = flat([0.3, 0.5, 0.3, 0.0, 0.0], [0.5, 0.5, 0.3, 0.0, 0.0])
    logprobs, kept = logprobs_of(tokens, Sampling(top_k=2, top_p=0.9), num_candidates=4, vocabulary=100)
    assert probabilities(logprobs) == [0.3, 0.5]
    assert probabilities(kept) == [0.375, 0.625]


def test_more_kept_than_asked_for_is_unknown() -> None:
    tokens = flat([0.3, 0.5, 0.3], [0.5, 0.5, 0.0])
    assert logprobs_of(tokens, Sampling(top_k=1), num_candidates=2, vocabulary=100)[1] is None
    assert logprobs_of(tokens, Sampling(top_k=2), num_candidates=2, vocabulary=2)[1] is not None


def test_without_truncation_both_are_one() -> None:
    tokens = flat([0.3], [0.5])
    logprobs, kept = logprobs_of(tokens, Sampling(top_k=0, top_p=1.0), num_candidates=0, vocabulary=100)
    assert kept == logprobs
    assert logprobs_of(tokens, Sampling(top_k=0, top_p=0.9), num_candidates=0, vocabulary=100)[1] is None


def test_greedy_is_certain_of_what_it_takes() -> None:
    logprobs, kept = logprobs_of(flat([0.3], [0.5]), Sampling(temperature=0.0), num_candidates=0, vocabulary=100)
    assert probabilities(logprobs) == [0.3, 0.5]
    assert kept == (0.0, 0.0)


def test_settings_are_refused_before_vllm_is_looked_for() -> None:
    with pytest.raises(ModelError, match="folder or a model's id"):
        VllmModel("")
    with pytest.raises(ModelError, match="max_top_k must be from 1 to 4096, got 0"):
        VllmModel("somewhere", max_top_k=0)


_OPEN = """
import sys
sys.modules["vllm"] = None
from spade_gym.models.vllm_model import VllmModel
try:
    VllmModel("somewhere")
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "ModelError vLLM is not installed or cannot be imported"),
        ({"VLLM_ENABLE_V1_MULTIPROCESSING": "1"}, "ModelError VLLM_ENABLE_V1_MULTIPROCESSING=1 does not work here"),
    ],
)
def test_what_is_missing_is_said(variables: dict[str, str], said: str) -> None:
    environment = {**os.environ, **variables}
    done = subprocess.run([sys.executable, "-c", _OPEN], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(said)
