from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade_gym.models.base import Message
from spade_gym.rollout.actions import action_of, messages_of


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        (r"It is \boxed{4}.", r"\boxed{4}"),
        (r"\boxed{1} or rather \boxed{2}", r"\boxed{2}"),
        (r"<think>\boxed{1}</think> \boxed{ up } ", r"\boxed{up}"),
        (r"\boxed{2} <think>no, \boxed{3}", r"\boxed{2}"),
        (r"\boxed{\frac{1}{2}}", r"\boxed{\frac{1}{2}}"),
        (r"\boxed{\boxed{5}}", r"\boxed{5}"),
        ("  go north\n", "go north"),
        (r"<think>\boxed{1}</think>go", "go"),
        (r"\boxed{never closed", r"\boxed{never closed"),
        ("", ""),
    ],
)
def test_a_game_gets_the_last_box_outside_think_blocks(reply: str, action: str) -> None:
    assert action_of(reply, "multi_turn", most_chars=1000) == action
    assert action_of(reply, "single_turn", most_chars=1000) == action


def test_raw_replies_are_boxed_where_that_is_asked_for() -> None:
    assert action_of("<think>hm</think> up", "multi_turn", most_chars=99, box_raw=True) == r"\boxed{up}"
    assert action_of(r"\boxed{up}", "multi_turn", most_chars=99, box_raw=True) == r"\boxed{up}"
    assert action_of("<answer>done</answer>", "tool_use", most_chars=99, box_raw=True) == "<answer>done</answer>"


def test_a_tool_use_program_gets_all_but_the_thoughts() -> None:
    reply = r'<think>call it</think>I look. <tool_call>{"name": "f", "arguments": {"a": "\\boxed{1}"}}</tool_call>'
    expected = r'I look. <tool_call>{"name": "f", "arguments": {"a": "\\boxed{1}"}}</tool_call>'
    assert action_of(reply, "tool_use", most_chars=1000) == expected


def test_an_action_is_always_one_that_an_environment_takes() -> None:
    assert action_of("x" * 50, "multi_turn", most_chars=20) == "x" * 20
    assert action_of("a\ud800b", "multi_turn", most_chars=20) == "a?b"


@given(st.text(), st.integers(1, 50))
def test_any_reply_gives_an_action(reply: str, most_chars: int) -> None:
    action = action_of(reply, "multi_turn", most_chars=most_chars)
    assert len(action) <= most_chars
    action.encode()


TWO_CALLS = '<tool_call>[{"name": "f"}, {"name": "g"}]</tool_call>'


@pytest.mark.parametrize(
    ("action", "observation", "messages"),
    [
        ("hello", "Error: no tool call.", [("user", "Error: no tool call.")]),
        ("<answer>done</answer>", "Not all are complete.", [("user", "Not all are complete.")]),
        ('<tool_call>{"name": "f"}</tool_call>', "7\n\nUser: Next.", [("tool", "7\n\nUser: Next.")]),
        (TWO_CALLS, "[1] f: 7\n\n[2] g: 8\n\nmore", [("tool", "7"), ("tool", "8\n\nmore")]),
        (TWO_CALLS, "[1] f: 7\n\n\n\n[2] g: ", [("tool", "7\n\n"), ("tool", "")]),
        (TWO_CALLS, "[1] f: \n\n[2] g: 8\n\n[2] g: 9", [("tool", "[1] f: \n\n[2] g: 8\n\n[2] g: 9")]),
        (TWO_CALLS, "a\n\n[1] f: 7\n\n[2] g: 8", [("tool", "a\n\n[1] f: 7\n\n[2] g: 8")]),
        (TWO_CALLS, "written by the program's own step", [("tool", "written by the program's own step")]),
        (
            '<tool_call>{"name": "f"}</tool_call><tool_call>{oops</tool_call>',
            "[1] f: 7\n\n[2] malformed: Error: no JSON.",
            [("tool", "7"), ("tool", "Error: no JSON.")],
        ),
    ],
)
def test_results_of_calls_are_told_apart_where_that_is_certain(
    action: str, observation: str, messages: list[tuple[str, str]]
) -> None:
    found = messages_of(observation, action, "tool_use")
    assert [(message.role, message.content) for message in found] == messages


def test_a_game_speaks_as_the_user() -> None:
    assert messages_of("[1] f: 7", TWO_CALLS, "multi_turn") == [Message("user", "[1] f: 7")]
