from __future__ import annotations

import time

import pytest

from spade_gym.programs.solution_text import action_lines

CALL = '<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>'


@pytest.mark.parametrize(
    ("text", "actions"),
    [
        ("open 1\n\n  \nopen 2\r\n", ["open 1", "open 2"]),
        ("", []),
        (f"{CALL}\n{CALL}\n<answer>done</answer>", [CALL, CALL, "<answer>done</answer>"]),
        ("<tool_call>{}</tool_call>\n<tool_call>{}</tool_call>", ["<tool_call>{}</tool_call>"] * 2),
        ("\\boxed{1 2\n3 4}\n\\boxed{up}", ["\\boxed{1 2\n3 4}", "\\boxed{up}"]),
        ("I call <tool_call>\n{}\n\n</tool_call> now\nnext", ["I call <tool_call>\n{}\n\n</tool_call> now", "next"]),
    ],
)
def test_each_line_is_an_action_but_calls_and_boxes_may_go_over_several(text: str, actions: list[str]):
    assert action_lines(text) == actions


@pytest.mark.parametrize("opening", ["<tool_call>", "\\boxed{"])
def test_what_is_never_closed_is_read_line_by_line_in_reasonable_time(opening: str):
    begin = time.perf_counter()
    assert action_lines(f"{opening}\na\nb") == [opening, "a", "b"]
    assert len(action_lines("\n".join([opening] * 3_000))) == 3_000
    assert time.perf_counter() - begin < 5
