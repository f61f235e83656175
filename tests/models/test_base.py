from __future__ import annotations

from typing import Any

import pytest

from spade_gym.models.base import Completion, ModelError


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"finish": "banana"}, "'a': finish must be stop, length or error, got 'banana'"),
        ({"finish": None}, "got None"),
        ({"prompt_tokens": -1}, "prompt_tokens=-1"),
        ({"completion_tokens": -1}, "completion_tokens=-1"),
        ({"completion_tokens": 2**31}, "from 0 to 2147483647"),
    ],
)
def test_a_completion_that_no_engine_can_mean_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        Completion(**{"key": "a", "text": "", "finish": "stop", **fields})


def test_the_three_ends_and_the_largest_counts_are_taken() -> None:
    for finish in ("stop", "length", "error"):
        most = 2**31 - 1
        assert Completion("a", "", finish, prompt_tokens=most, completion_tokens=most).finish == finish
