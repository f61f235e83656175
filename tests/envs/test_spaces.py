from __future__ import annotations

import json

import pytest
from gymnasium.error import CustomSpaceError
from gymnasium.vector.utils import batch_space, create_shared_memory
from hypothesis import given
from hypothesis import strategies as st

from spade_gym.envs.spaces import Unicode


@given(st.text(max_size=50))
def test_any_text_without_surrogates_belongs(text: str) -> None:
    assert text in Unicode(50)


def test_what_does_not_belong() -> None:
    space = Unicode(3)
    assert "" in space
    assert "abcd" not in space
    assert "\ud800" not in space
    assert 3 not in space
    assert b"a" not in space


def test_samples_belong_and_repeat_with_the_seed() -> None:
    space, twin = Unicode(seed=4), Unicode(seed=4)
    samples = [space.sample() for _ in range(50)]
    assert all(sample in space for sample in samples)
    assert samples == [twin.sample() for _ in range(50)]
    assert len(set(samples)) > 40
    with pytest.raises(ValueError, match="no mask"):
        space.sample(mask=(1, 2))  # type: ignore[arg-type]


def test_json_and_equality() -> None:
    space = Unicode(9)
    assert space.from_jsonable(json.loads(json.dumps(space.to_jsonable(["a", "é"])))) == ["a", "é"]
    assert space == Unicode(9)
    assert space != Unicode(8)
    assert hash(space) == hash(Unicode(9))
    assert batch_space(space, 2).contains(("a", "b"))


@pytest.mark.parametrize("length", [-1, True, 1.5, "9"])
def test_bad_lengths_are_refused(length: object) -> None:
    with pytest.raises(ValueError, match="max_length"):
        Unicode(length)  # type: ignore[arg-type]


def test_shared_memory_is_refused_with_the_remedy() -> None:
    with pytest.raises(CustomSpaceError, match="shared_memory=False"):
        create_shared_memory(Unicode(), n=2)
