import enum
import math
from collections import Counter, OrderedDict, defaultdict, namedtuple
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade_gym.sandbox.conversion import (
    BadResult,
    clean_text,
    encoded_info,
    safe_int,
    safe_repr,
    to_flag,
    to_observation,
    to_plain,
    to_reward,
)  # fmt: skip
from spade_gym.sandbox.wire import INFO_BYTES, INFO_NODES, count_nodes, is_plain, plain_of


class Word(str):
    __slots__ = ()


class Half(float):
    pass


class Level(enum.IntEnum):
    LOW = 1


@pytest.mark.parametrize(
    ("value", "text", "notes"),
    [
        ("text", "text", []),
        ("", "", []),
        (Word("text"), "text", []),
        ("a\ud800b", "a\ufffdb", ["lone_surrogates"]),
        ("\ud83d\ude00", "😀", ["lone_surrogates"]),
        ({"b": 1, "a": [1, 2.5, None]}, '{"b": 1, "a": [1, 2.5, null]}', ["dict_observation"]),
        ({1: {2, 1}}, '{"1": [1, 2]}', ["dict_observation"]),
        (np.array([[1, 2], [3, 4]]), "[[1, 2], [3, 4]]", ["array_observation"]),
        (np.float32(0.5), "0.5", ["non_text_observation"]),
        ([1, "é"], '[1, "é"]', ["non_text_observation"]),
        ((1, 2), "[1, 2]", ["non_text_observation"]),
        (7, "7", ["non_text_observation"]),
    ],
)
def test_observations_become_text(value: Any, text: str, notes: list[str]) -> None:
    noted: list[str] = []
    if isinstance(value, np.floating):
        value = float(value)
    assert to_observation(value, noted.append) == text
    assert noted == notes


@pytest.mark.parametrize("value", [None, True, object(), b"bytes", {1, 2}, lambda: 0])
def test_what_is_no_observation(value: Any) -> None:
    with pytest.raises(BadResult, match=f"must be text, got {type(value).__name__}"):
        to_observation(value, print)


@pytest.mark.parametrize(
    ("value", "number", "notes"),
    [
        (0.5, 0.5, []), (1, 1.0, []), (True, 1.0, []), (-0.0, 0.0, []),
        (Half(0.25), 0.25, ["number_subclass"]), (Level.LOW, 1.0, ["number_subclass"]),
        (np.float64(0.5), 0.5, ["numpy_scalar"]), (np.float32(0.5), 0.5, ["numpy_scalar"]),
        (np.int64(3), 3.0, ["numpy_scalar"]), (np.bool_(True), 1.0, ["numpy_scalar"]),
        (np.array(0.5), 0.5, ["numpy_scalar"]), (np.array([0.5]), 0.5, ["numpy_scalar"]),
        (np.array([[2]]), 2.0, ["numpy_scalar"]),
    ],
)  # fmt: skip
def test_rewards_become_floats(value: Any, number: float, notes: list[str]) -> None:
    noted: list[str] = []
    found = to_reward(value, noted.append)
    assert type(found) is float
    assert (found, noted) == (number, notes)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (math.nan, "finite, got nan"), (math.inf, "finite, got inf"), (np.float64("nan"), "finite"),
 (None, "a number, got NoneType"), ("1", "a number, got str: '1'"),
        (np.array([1.0, 2.0]), "a number, got ndarray"), ([1.0], "a number, got list"), (1j, "a number, got complex"),
    ],
)  # fmt: skip
def test_what_is_no_reward(value: Any, message: str) -> None:
    with pytest.raises(BadResult, match=message):
        to_reward(value, print)


@pytest.mark.parametrize(
    ("value", "flag", "notes"),
    [
        (True, True, []), (False, False, []), (np.bool_(True), True, ["numpy_scalar"]),
        (np.array([False]), False, ["numpy_scalar"]), (1, True, ["integer_flag"]), (0, False, ["integer_flag"]),
    ],
)  # fmt: skip
def test_flags_become_bools(value: Any, flag: bool, notes: list[str]) -> None:
    noted: list[str] = []
    found = to_flag(value, "terminated", noted.append)
    assert type(found) is bool
    assert (found, noted) == (flag, notes)


@pytest.mark.parametrize("value", [None, 2, "yes", 0.5, [], np.array([True, False])])
def test_what_is_no_flag(value: Any) -> None:
    with pytest.raises(BadResult, match="terminated must be True or False"):
        to_flag(value, "terminated", print)


Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (None, None), (3, 3), (2**63, str(2**63)), (-(2**63), -(2**63)), ("x", "x"), (Word("x"), "x"),
        ((1, [2]), [1, [2]]), ({3, 1, 2}, [1, 2, 3]), (frozenset("b"), ["b"]),
        ({1: "a", (2,): "b"}, {"1": "a", "(2,)": "b"}),
        (Point(1, 2), [1, 2]), (Counter("aab"), {"a": 2, "b": 1}), (OrderedDict(a=1), {"a": 1}),
        (defaultdict(int, a=1), {"a": 1}), (Level.LOW, 1), (Half(0.5), 0.5), (np.int8(3), 3), (np.bool_(True), True),
        (np.arange(3), [0, 1, 2]), (np.str_("x"), "x"), (b"x", "b'x'"), (1j, "1j"),
        ({"\ud800": "\udfff"}, {"\ufffd": "\ufffd"}),
    ],
)  # fmt: skip
def test_info_becomes_plain_data(value: Any, plain: Any) -> None:
    found = to_plain(value)
    assert found == plain
    assert is_plain(found)


def test_info_is_bounded() -> None:
    nest: list[Any] = []
    for _ in range(1000):
        nest = [nest]
    circle: dict[str, Any] = {}
    circle["me"] = circle
    assert "<too deep>" in str(to_plain(nest))
    assert "<too deep>" in str(to_plain(circle))


@pytest.mark.parametrize(
    "value",
    [
        {"a": "x" * 200_000}, {"a": "é😀" * 50_000}, {"a": list(range(90_000))}, {"a": [[] for _ in range(90_000)]},
        {"a": [[[] for _ in range(999)] for _ in range(99)]}, {n: {n: n} for n in range(20_000)},
        {"k" * 70_000: 1, "b": 2}, {"a": [0.5] * 90_000}, {"a": ["x" * 99] * 9_000},
        {"é" * n: "é" * n for n in range(999)},
        {"a": np.zeros((300, 300))}, {"a": [10**18] * 90_000}, {"a": {f"{n}" for n in range(90_000)}},
    ],
    ids=range(13),
)  # fmt: skip
def test_an_info_is_cut_to_what_a_row_may_carry(value: dict[Any, Any]) -> None:
    notes: list[str] = []
    raw = encoded_info(value, notes.append)
    found = plain_of(raw, INFO_BYTES, INFO_NODES)
    assert count_nodes(bytes(raw), 1 << 30) <= INFO_NODES
    assert isinstance(found, dict)
    assert notes == ["long_info"]


def test_an_info_that_fits_is_not_cut() -> None:
    value = {"commands": [f"go {n}" for n in range(2000)], "text": "x" * 20_000, "n": {"a": [1, 2.5, None, True]}}
    notes: list[str] = []
    assert plain_of(encoded_info(value, notes.append), INFO_BYTES, INFO_NODES) == value
    assert notes == []


@given(
    st.recursive(
        st.none() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text() | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=40), inner),
        max_leaves=30,
    )
)
def test_values_are_counted_without_being_made(value: Any) -> None:
    def count(part: Any) -> int:
        if isinstance(part, dict):
            return 1 + len(part) + sum(map(count, part.values()))
        return 1 + sum(map(count, part)) if isinstance(part, list) else 1

    assert count_nodes(msgspec.msgpack.encode(value), 1 << 30) == count(value)


@given(st.binary(max_size=100))
def test_any_bytes_can_be_counted(data: bytes) -> None:
    assert 0 <= count_nodes(data, 10) <= 11


class Hostile:
    def __getattr__(self, name: str) -> Any:
        raise SystemExit(name)

    def __repr__(self) -> str:
        raise SystemExit("repr")

    __str__ = __repr__


def test_hostile_objects_are_named_by_type() -> None:
    assert safe_repr(Hostile()) == "<Hostile whose repr failed>"
    assert to_plain({"x": Hostile()}) == {"x": "<Hostile whose repr failed>"}
    assert len(safe_repr("x" * 1000)) == 200


def test_integers_of_any_size_have_a_text() -> None:
    assert to_observation(10**5000, lambda name: None) == '"<integer of 16610 bits>"'
    with pytest.raises(BadResult, match="finite number"):
        to_reward(10**5000, print)
    assert safe_int(10**30) == str(10**30)
    assert safe_int(10**10_000) == "<integer of 33220 bits>"


@given(st.text() | st.text(st.characters(categories=["Cs", "L"])))
def test_clean_text_can_be_encoded_and_keeps_what_could_be(text: str) -> None:
    clean = clean_text(text, lambda name: None)
    clean.encode("utf-8")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        assert clean != text
    else:
        assert clean == text
