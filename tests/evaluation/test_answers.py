from __future__ import annotations

import pytest

from spade_gym.evaluation.answers import MOST_CHARS, chosen_letter, final_answer, tagged_answer, written_code


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        (r"first \boxed{1}, then \boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"<think>\boxed{1}</think> so \boxed{2}", "2"),
        (r"<think>\boxed{1}", None),
        ("It follows.\n**Answer: 12**", "12"),
        ("Final answer = 7\nAnswer: 8", "8"),
        ("It is 12.", None),
        (r"\boxed{}", None),
        (r"\boxed{" + "1" * (MOST_CHARS + 1) + "}", None),
    ],
)
def test_the_last_box_or_line_is_the_answer(reply: str, answer: str | None) -> None:
    assert final_answer(reply) == answer


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("<answer> 3 4\n5 6 </answer>", "3 4\n5 6"),
        ("<answer>1</answer> no: <answer>2</answer>", "2"),
        ("<think><answer>1</answer></think>", None),
        (r"\boxed{9}", "9"),
        ("<answer>unclosed", None),
        ("</answer> before <answer>", None),
    ],
)
def test_tags_come_before_boxes(reply: str, answer: str | None) -> None:
    assert tagged_answer(reply) == answer


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        (r"\boxed{B}", "B"),
        (r"\boxed{\text{(B)}}", "B"),
        (r"\boxed{B) green}", "B"),
        ("Answer: B.", "B"),
        (r"\boxed{green}", "B"),
        (r"\boxed{E}", None),
        (r"\boxed{b}", None),
        (r"\boxed{same}", None),
        ("I would say B", None),
    ],
)
def test_letters(reply: str, letter: str | None) -> None:
    assert chosen_letter(reply, ("red", "green", "same", "same")) == letter


def test_code_is_the_last_block() -> None:
    reply = "First:\n```python\nx = 1\n```\nBetter:\n```python\nx = 2\n```\n"
    assert written_code(reply) == "x = 2\n"
    assert written_code("def f():\n    return 1") == "def f():\n    return 1"
    assert written_code("I cannot.") is None
