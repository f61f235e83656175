from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade_gym.sandbox.tool_arguments import fit_arguments

SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "share": {"type": "number"},
        "flag": {"type": "boolean"},
        "ids": {"type": "array", "items": {"type": "string"}},
        "extra": {"type": "object"},
        "maybe": {"type": ["integer", "null"]},
        "free": {},
    },
    "required": ["text", "count"],
}


@pytest.mark.parametrize(
    ("name", "value", "fitted"),
    [
        ("text", "a", "a"), ("text", 5, "5"), ("count", 5, 5), ("count", "5", 5), ("count", 5.0, 5), ("share", 1, 1),
        ("share", "0.5", 0.5), ("share", "3", 3), ("flag", True, True), ("flag", "False", False),
        ("ids", ["a", 2], ["a", "2"]), ("extra", {"a": 1}, {"a": 1}), ("maybe", None, None), ("maybe", 3, 3),
        ("free", None, None), ("free", [1], [1]), ("unknown", 1, 1),
    ],
)  # fmt: skip
def test_what_fits(name: str, value: object, fitted: object) -> None:
    arguments, problems = fit_arguments({name: value}, SCHEMA)
    assert problems == []
    assert arguments.get(name) == fitted
    assert type(arguments.get(name)) is type(fitted)


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("text", None, "text must be a string, got null"),
        ("text", True, "text must be a string, got a boolean"),
        ("text", ["a"], "text must be a string, got an array"),
        ("count", True, "count must be an integer, got a boolean"),
        ("count", 5.5, "count must be an integer, got a number"),
        ("count", "five", "count must be an integer, got a string"),
        ("count", "9" * 5000, "count must be an integer, got a string"),
        ("share", "nan", "share must be a number, got a string"),
        ("ids", "a", "ids must be an array, got a string"),
        ("ids", [[1]], "ids must be an array of which each item is a string, got an array"),
        ("extra", [1], "extra must be an object, got an array"),
        ("maybe", "x", "maybe must be an integer or null, got a string"),
    ],
)
def test_what_does_not_fit(name: str, value: object, problem: str) -> None:
    assert fit_arguments({name: value}, SCHEMA)[1] == [problem]


def test_null_for_an_optional_argument_leaves_it_out() -> None:
    assert fit_arguments({"share": None, "text": "a"}, SCHEMA) == ({"text": "a"}, [])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(arguments=st.dictionaries(st.sampled_from([*SCHEMA["properties"], "other"]), JSON), schema=JSON)  # type: ignore[misc]
def test_nothing_makes_it_raise(arguments: dict[str, object], schema: object) -> None:
    fit_arguments(arguments, SCHEMA)
    fit_arguments(arguments, schema if isinstance(schema, dict) else {})
    fit_arguments(arguments, {"properties": schema, "required": schema})
