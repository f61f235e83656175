from __future__ import annotations

import random
import re
from collections import Counter, deque
from typing import Any

import pytest

from spade_gym.sandbox.fingerprint import fingerprint


class Thing:
    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


def digest(**values: Any) -> str | None:
    return fingerprint(Thing(**values), {}, {}, ())


def moved(generator: random.Random) -> random.Random:
    generator.random()
    return generator


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (1, True),
        ("1", 1),
        ([1, 2], [2, 1]),
        ([1, 2], (1, 2)),
        ({"a": 1}, {"a": 2}),
        ({1, 2}, {1, 3}),
        (deque([1]), deque([2])),
        (Counter("ab"), Counter("abb")),
        (random.Random(1), random.Random(2)),
        (random.Random(1), moved(random.Random(1))),
        (re.compile("a"), re.compile("b")),
        (Thing(x=1), Thing(x=2)),
        (None, 0),
        ([[], []], [[], [None]]),
    ],
)
def test_different_states_have_different_digests(one: Any, other: Any):
    assert digest(value=one) != digest(value=other)


@pytest.mark.parametrize(
    "make",
    [
        lambda: [1, "a", None, 2.5, b"x"],
        lambda: {"b": {3, 1, 2}, "a": (1,)},
        lambda: {f"word {number}" for number in range(50)},
        lambda: random.Random(5),
        lambda: Thing(parts=[Thing(x=1), Thing(x=1)]),
        lambda: re.compile(r"open (\d)"),
    ],
)
def test_equal_states_have_equal_digests(make: Any):
    assert digest(value=make()) is not None
    assert digest(value=make()) == digest(value=make())


def test_sharing_is_part_of_the_state():
    shared: list[int] = []
    assert digest(one=shared, other=shared) != digest(one=[], other=[])


def test_state_that_refers_to_itself_ends():
    loop: list[Any] = []
    loop.append(loop)
    assert digest(value=loop) is not None


def test_what_hides_state_has_no_digest():
    hidden = [0]
    assert digest(value=lambda: hidden) is None
    assert digest(value=(number for number in range(3))) is None


def test_module_state_counts():
    thing = Thing()
    assert fingerprint(thing, {"COUNT": [1]}, {}, ()) != fingerprint(thing, {"COUNT": [2]}, {}, ())
    assert fingerprint(thing, {}, {}, (1.0,)) != fingerprint(thing, {}, {}, (2.0,))
