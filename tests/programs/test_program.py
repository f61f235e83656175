import datetime
import math

import pytest

from spade_gym.errors import ManifestError
from spade_gym.programs.program import Manifest, Program


def make(**changes):
    return Manifest(**{"name": "Coin", "setting": "multi_turn", "class_name": "CoinEnv", **changes})


def nested(depth):
    return [nested(depth - 1)] if depth else 1


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"name": "../x"}, "name must be a word"),
        ({"name": 10**5000}, "name must be a word"),
        ({"class_name": "\ud800"}, "surrogate"),
        ({"class_name": "a b"}, "identifier"),
        ({"class_name": "x" * 5000}, "5000 characters; at most"),
        ({"setting": ["multi_turn"]}, "setting must be one of"),
        ({"reward": ["sum"]}, "'sum' or 'last'"),
        ({"skill": "\ud800"}, "skill holds a lone surrogate"),
        ({"description": 5}, "description must be text, got 5"),
        ({"description": "x" * 5000}, "at most 2000"),
        ({"hint": "x" * 60_000}, "at most 50000"),
        ({"max_turns": 0}, "from 1 to 1000000"),
        ({"max_turns": 1_000_001}, "from 1 to 1000000"),
        ({"max_turns": 10**5000}, "too large to show"),
        ({"max_turns": True}, "got True"),
        ({"max_turns": 5.0}, "got 5.0"),
        ({"commands": "go"}, "list of texts"),
        ({"commands": 5}, "list of texts"),
        ({"commands": ["a", 5]}, r"commands\[1\] must be text, got 5"),
        ({"commands": ["a"] * 3000}, "3000 items"),
        ({"commands": ["a" * 9_000] * 20}, "in all"),
        ({"repairs": ["\udfff"]}, "surrogate"),
        ({"adapters": {"a": 1}}, "list of texts"),
        ({"origin": {"kind": 5}}, "origin.kind must be text, got 5"),
        ({"origin": {5: "x"}}, "key of origin must be text"),
        ({"origin": {"kind": "\ud800"}}, "surrogate"),
        ({"origin": {"kind": "x" * 20_000}}, "at most 10000"),
        ({"origin": {str(key): "x" for key in range(200)}}, "200 entries"),
        ({"origin": []}, "must be a table"),
        ({"kwargs": []}, "must be a table"),
        ({"kwargs": {"a": 1 << 63}}, "kwargs.a must be an integer of at most 64 bits"),
        ({"kwargs": {"a": -(1 << 63) - 1}}, "64 bits"),
        ({"kwargs": {"a": [{"b": 10**5000}]}}, "kwargs.a.0.b must be an integer of at most 64 bits"),
        ({"kwargs": {"a": math.inf}}, "finite number, got inf"),
        ({"kwargs": {"a": math.nan}}, "finite number, got nan"),
        ({"kwargs": {"a": "\ud800"}}, "surrogate"),
        ({"kwargs": {"\ud800": 1}}, "surrogate"),
        ({"kwargs": {5: 1}}, "key of kwargs must be text"),
        ({"kwargs": {"a": datetime.date(2020, 1, 1)}}, "got date"),
        ({"kwargs": {"a": object()}}, "got object"),
        ({"kwargs": {"a": {1, 2}}}, "got set"),
        ({"kwargs": {"a": b"x"}}, "got bytes"),
        ({"kwargs": {"a": nested(17)}}, "nested more than 16"),
        ({"kwargs": {"a": [0] * 20_000}}, "more than 10000 values"),
        ({"kwargs": {"a": ["x" * 60_000] * 2}}, "more than 100000 characters"),
    ],
)
def test_a_manifest_refuses_what_would_break_later(changes, reason):
    with pytest.raises(ManifestError, match=reason):
        make(**changes)


def test_what_a_manifest_takes_survives_toml():
    manifest = make(
        max_turns=1_000_000,
        hint="x" * 50_000,
        commands=("go {1..9}", "é") * 1_000,
        kwargs={"a": [1, -2.5, True, "é\0", {"b": []}], "b": (1 << 63) - 1, "c": -(1 << 63), "d": nested(15)},
        origin={"kind": "x" * 10_000},
    )
    program = Program("x = 1\n", manifest)
    assert Manifest.from_toml(manifest.to_toml(program.digest)) == (manifest, program.digest)


@pytest.mark.parametrize("value", ["9" * 5000, "[" * 5000, "2020-13-01", '"\\ud800"', "1979-05-27", "inf"])
def test_any_toml_is_read_or_refused_with_its_place(value):
    text = f'name = "Coin"\nsetting = "multi_turn"\nclass_name = "CoinEnv"\nkwargs = {{ a = {value} }}\n'
    with pytest.raises(ManifestError, match="here"):
        Manifest.from_toml(text, where="here")


def test_a_program_is_made_of_text_and_a_manifest():
    with pytest.raises(TypeError, match="NoneType and Manifest"):
        Program(None, make())
    with pytest.raises(TypeError, match="str and str"):
        Program("x", "y")
