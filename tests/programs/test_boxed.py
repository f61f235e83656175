import pytest

from spade_gym.programs.boxed import box, boxes, last_boxed


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
