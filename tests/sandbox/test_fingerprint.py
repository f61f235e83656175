from __future__ import annotations

import random
import re
from collections import Counter, deque
from typing import Any

import pytest

from spade_gym.sandbox.audit import PROGRAM_FILE
from spade_gym.sandbox.copies import MODULE_NAME
from spade_gym.sandbox.fingerprint import fingerprint
from spade_gym.sandbox.reach import Surroundings

AROUND = Surroundings()


class Thing:
    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


Thing.__module__ = MODULE_NAME
MODULE = {"Thing": Thing}


def digest(**values: Any) -> str | None:
    return fingerprint(Thing(**values), MODULE, {}, (), AROUND)


def function(text: str) -> Any:
    return eval(compile(text, PROGRAM_FILE, "eval"), {"hidden": [0]})


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
        (0.0, -0.0),
        (b"a", bytearray(b"a")),
        (function("[lambda s: 1, lambda s: 2]")[0], function("[lambda s: 1, lambda s: 2]")[1]),
        (function("lambda s, x=1: x"), function("lambda s, x=2: x")),
        (deque([1], maxlen=1), deque([1], maxlen=2)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ([9, 1], [{9, 1}]),
        ([{1, 9}], [{9, 1}]),
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
    assert digest(value=function("(lambda x: lambda: x)(1)")) is None
    assert hidden == [0]
    assert digest(value=(number for number in range(3))) is None


def test_numbers_of_any_length_have_digests():
    assert digest(value=10**5000) != digest(value=10**5000 + 1)


def test_module_state_counts():
    thing = Thing()
    one, two = ({**MODULE, "COUNT": [number]} for number in (1, 2))
    assert fingerprint(thing, one, {}, (), AROUND) != fingerprint(thing, two, {}, (), AROUND)
    assert fingerprint(thing, MODULE, {}, (1.0,), AROUND) != fingerprint(thing, MODULE, {}, (2.0,), AROUND)
