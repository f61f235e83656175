from __future__ import annotations

import json

import pytest

from spade_gym.validation import actions


def test_numbers_in_a_command_are_replaced_all_at_once_and_one_at_a_time():
    assert actions.number_variants("open 3") == ["open 0", "open 1", "open -1", "open 1000000000"]
    assert actions.number_variants("swap 1 2")[:3] == ["swap 0 0", "swap 0 2", "swap 1 0"]
    assert actions.number_variants("look") == []
    assert "B2" not in "".join(actions.number_variants("name B2 now"))


def test_a_command_is_cut_short_doubled_and_shouted():
    assert actions.shape_variants("open 3") == ["open", "open 3 1", "open x", "OPEN 3"]
    assert actions.shape_variants("") == []


@pytest.mark.parametrize(
    ("text", "commands", "examples"),
    [
        ("Answer \\boxed{yes} or \\boxed{no}.", ("yes", "no"), ()),
        ("Who is it? Answer like \\boxed{Arlo}.", (), ("Arlo",)),
        ("Give the weights, for example \\boxed{3 5}.", (), ("3 5",)),
        ("Say it like \\boxed{north}. Commands: \\boxed{north}, \\boxed{south}", ("north", "south"), ()),
    ],
)
def test_an_example_of_the_form_of_an_answer_is_no_announced_command(
    text: str, commands: tuple[str, ...], examples: tuple[str, ...]
):
    found = actions.announced([text])
    assert found.commands == commands
    assert found.examples == examples


def test_replies_that_announce_nothing_take_nothing_back():
    menu = "Commands: \\boxed{left}, \\boxed{right}"
    assert actions.announced([menu, "Unknown command."]).finite
    assert not actions.announced(["Unknown command."]).finite
    assert not actions.announced([menu, "Or buy with \\boxed{buy <price>}"]).finite


def test_boxing():
    assert actions.boxed("open 3") == "\\boxed{open 3}"
    assert actions.boxed("\\boxed{open 3}") == "\\boxed{open 3}"
    assert actions.unboxed("I say \\boxed{1} and \\boxed{open 3}") == "open 3"
    assert actions.unboxed("plain") == "plain"


def test_tools_are_called_with_values_of_their_declared_types():
    schema = {
        "type": "function",
        "function": {
            "name": "pay",
            "parameters": {"type": "object", "properties": {"to": {"type": "string"}, "cents": {"type": "integer"}}},
        },
    }
    calls = [
        json.loads(call.removeprefix("<tool_call>").removesuffix("</tool_call>"))
        for call in actions.tool_probes([schema], ["AC12"])
    ]
    assert [call["arguments"]["cents"] for call in calls] == [0, 1, -1, 1_000_000_000, 0]
    assert calls[-1]["arguments"]["to"] == "AC12"
    wrong = actions.wrong_typed_probes([schema])
    assert actions.tool_call("pay", {"to": None, "cents": None}) in wrong


def test_malformed_schemas_give_no_error():
    assert actions.function_of(None) == {}
    assert actions.tool_probes([{"function": {"name": "x", "parameters": "none"}}]) == [actions.tool_call("x", {})]


def test_templates_are_filled():
    assert actions.fill_template("buy <price>")[:3] == ["buy 0", "buy 1", "buy -1"]
