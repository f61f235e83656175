import json

import pytest

from spade_gym.cli.play_actions import TypingMistake, compose, signature


def tool(name, required=(), **properties):
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return {"type": "function", "function": {"name": name, "description": f"Does {name}.", "parameters": parameters}}


TOOLS = [
    tool("get_order", ["order_id"], order_id={"type": "integer"}, note={"type": "string"}),
    tool("search", ["text"], text={"type": "string"}),
    tool(
        "set", (), tags={"type": "array", "items": {"type": "integer"}}, on={"type": "boolean"}, at={"type": "object"}
    ),
    tool("ping"),
]


def call(typed):
    action = compose(typed, setting="tool_use", tools=TOOLS)
    assert action.startswith("<tool_call>")
    assert action.endswith("</tool_call>")
    return json.loads(action.removeprefix("<tool_call>").removesuffix("</tool_call>"))


@pytest.mark.parametrize(
    ("typed", "action"),
    [("go left", r"\boxed{go left}"), (r"\boxed{go}", r"\boxed{go}"), (r"so \boxed{x} it is", r"so \boxed{x} it is")],
)
def test_games_are_boxed_once(typed, action):
    assert compose(typed, setting="multi_turn") == action
    assert compose(typed, setting="single_turn") == action


@pytest.mark.parametrize(
    ("typed", "name", "arguments"),
    [
        ("get_order order_id=17", "get_order", {"order_id": 17}),
        ("get_order order_id=17 note=left at the door", "get_order", {"order_id": 17, "note": "left at the door"}),
        ('get_order note="a order_id=3 b" order_id=4', "get_order", {"note": "a order_id=3 b", "order_id": 4}),
        ("get_order order_id=1 note='it is'", "get_order", {"order_id": 1, "note": "it is"}),
        ("get_order order_id=1 note=5", "get_order", {"order_id": 1, "note": "5"}),
        ("search lost parcel", "search", {"text": "lost parcel"}),
        ("search text=a=b", "search", {"text": "a=b"}),
        ("tool search text=x", "search", {"text": "x"}),
        ("set tags=1, 2,3 on=yes", "set", {"tags": [1, 2, 3], "on": True}),
        ('set tags=[4] on=false at={"x": {"y": 1}}', "set", {"tags": [4], "on": False, "at": {"x": {"y": 1}}}),
        ("ping", "ping", {}),
        ('{"name": "ping", "arguments": {"a": [1]}}', "ping", {"a": [1]}),
    ],
)
def test_a_friendly_call_becomes_a_tool_call(typed, name, arguments):
    assert call(typed) == {"name": name, "arguments": arguments}


@pytest.mark.parametrize(
    ("typed", "reason"),
    [
        ("get_ordr order_id=1", "Did you mean get_order"),
        ("get_order", "also needs order_id"),
        ("get_order order_id=x", "type integer"),
        ("get_order order_id=true", "type integer"),
        ("get_order order_id=1.5", "type integer"),
        ("get_order 17", "key=value"),
        ("get_order 17 order_id=1", "key=value"),
        ("get_order order_id=1 colour=red", "not colour"),
        ("set on=maybe", "type boolean"),
        ("{bad json", "no valid JSON"),
        ('{"tool": 1}', '"name"'),
    ],
)
def test_a_mistake_is_explained(typed, reason):
    with pytest.raises(TypingMistake, match=reason):
        compose(typed, setting="tool_use", tools=TOOLS)


def test_the_end_and_raw_calls_pass():
    assert compose("done", setting="tool_use", tools=TOOLS) == "<answer>done</answer>"
    raw = "<tool_call>{broken</tool_call>"
    assert compose(raw, setting="tool_use", tools=TOOLS) == raw


def test_without_schemas_values_are_guessed():
    action = compose('go n=3 who=Ann at=[1] s="5"', setting="tool_use")
    assert json.loads(action[len("<tool_call>") : -len("</tool_call>")])["arguments"] == {
        "n": 3,
        "who": "Ann",
        "at": [1],
        "s": "5",
    }


@pytest.mark.parametrize("schema", [{}, {"function": 3}, {"name": "x", "parameters": [1]}, {"function": {"name": "x"}}])
def test_malformed_schemas_do_no_harm(schema):
    signature(schema)
    assert compose("x", setting="tool_use", tools=[schema, {"function": {"name": "x"}}]).startswith("<tool_call>")


def test_signature():
    assert signature(TOOLS[0]) == "get_order order_id=<integer> [note=<string>]  Does get_order."
