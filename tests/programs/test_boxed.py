import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spade_gym.programs.boxed import box, boxes, last_boxed, without_thoughts


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (r"\boxed{42}", "42"),
        (r"a \boxed{1} b \boxed{2}", "2"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{ go north }", "go north"),
        (r"\boxed{}", ""),
        (r"<think>\boxed{1}</think> so \boxed{2}", "2"),
        (r"\boxed{2} <think>or \boxed{1}", "2"),
        (r"\boxed{1} was a thought</think> \boxed{2}", "2"),
        (r"<think>\boxed{1}</think> done", None),
        (r"\boxed{1} and \boxed{2", "1"),
        (r"\boxed{\boxed{3}}", "3"),
        (r"\boxed {3}", "3"),
        ("none", None),
        ("", None),
        (r"\boxed{a" + "\n" + "b}", "a\nb"),
    ],
)
def test_the_last_balanced_box_outside_thoughts(text, content):
    assert last_boxed(text) == content


def test_a_box_is_put_around_a_text_only_once():
    assert box("go north") == r"\boxed{go north}"
    assert box(r"\boxed{go north}") == r"\boxed{go north}"
    assert box(r"I say \boxed{3}.") == r"I say \boxed{3}."
    assert box("") == r"\boxed{}"


def test_boxes_tell_where_they_stand():
    assert [(item.start, item.end, item.content) for item in boxes(r"x \boxed{a{b}} \boxed{c}")] == [
        (2, 14, "a{b}"),
        (15, 24, "c"),
    ]


def test_many_unclosed_boxes_take_no_quadratic_time():
    assert last_boxed("\\boxed{" * 40_000) is None


@pytest.mark.parametrize(("opening", "content"), [("\\boxed{", ""), ("{", ""), ("\\boxed{ ", "x")])
def test_many_nested_boxes_take_no_quadratic_time(opening, content):
    began = time.process_time()
    assert last_boxed("\\boxed{" + opening * 40_000 + content + "}" * 40_001) == content
    assert time.process_time() - began < 2  # 13 s for 8,000 where every box was read anew


def peel_by_peel(text):
    """What ``last_boxed`` means: each box and each pair of braces is taken off, and the rest read anew."""
    found = [item.content.strip() for item in boxes(without_thoughts(text))]
    if not found:
        return None
    content = found[-1]
    while (inner := next(boxes(content), None)) and (inner.start, inner.end) == (0, len(content)):
        content = inner.content.strip()
    while whole_pair(content):
        content = content[1:-1].strip()
    return content


def whole_pair(text):
    depths = [text[: place + 1].count("{") - text[: place + 1].count("}") for place in range(len(text))]
    return len(text) > 1 and text[0] == "{" and depths.index(0) == len(text) - 1


@given(st.lists(st.sampled_from(["\\boxed{", "\\boxed {", "{", "}", "}", " ", "\n", "a", "<think>", "</think>"])))
@example(["\\boxed{", "{", "\\boxed{", "a", "}", "}", "}"])
@example(["\\boxed{", " ", "\\boxed {", "{", " ", "a", "}", "}", " ", "}"])
def test_the_box_is_the_one_that_peeling_gives(parts):
    assert last_boxed("".join(parts)) == peel_by_peel("".join(parts))
