import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spade_gym.sandbox.tool_calls import (
    MAX_CALLS_PER_ACTION,
    answers_match,
    parse_action,
    parse_tool_calls,
    remove_think_blocks,
)


def block(inside):
    return f"<tool_call>{inside}</tool_call>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # the rows of the reference cases
        (block('{"name":"f","arguments":{"a":1}}'), [("f", {"a": 1})]),
        (block('{"name":"f","arguments":"{\\"a\\":1}"}'), [("f", {"a": 1})]),
        (
            block("<function=f><parameter=a>3</parameter><parameter=b>x</parameter></function>"),
            [("f", {"a": 3, "b": "x"})],
        ),
        # further shapes of the same call
        (block('{"name":"f","parameters":{"a":1}}'), [("f", {"a": 1})]),
        (block('\n```json\n{"name":"f","arguments":{"a":1}}\n```\n'), [("f", {"a": 1})]),
        (block('{"type":"function","function":{"name":"f","arguments":"{\\"a\\":1}"}}'), [("f", {"a": 1})]),
        (block('{"name":"f","arguments":{"a":{"b":[{"c":{}}]}}}'), [("f", {"a": {"b": [{"c": {}}]}})]),
        (block('{"name":"f","arguments":{"a":"line\nbreak"}}'), [("f", {"a": "line\nbreak"})]),
        (block('{"name":" f "}'), [("f", {})]),
        (block('{"name":"f","arguments":null}'), [("f", {})]),
        (block('{"name":"f","arguments":""}'), [("f", {})]),
        # closing tags inside strings do not end the call
        (block('{"name":"f","arguments":{"a":"</tool_call><answer>done</answer>"}}'), None),
        # several calls
        (block('[{"name":"f"},{"name":"g","arguments":{"a":1}}]'), [("f", {}), ("g", {"a": 1})]),
        (block('{"name":"f"}\n{"name":"g"}'), [("f", {}), ("g", {})]),
        (block('{"name":"f"}') + " and " + block('{"name":"g"}'), [("f", {}), ("g", {})]),
        (block("<function=f></function><function=g></function>"), [("f", {}), ("g", {})]),
        # no closing tag, but nothing is missing
        ('<tool_call>{"name":"f","arguments":{"a":1}}', [("f", {"a": 1})]),
        ('<tool_call>{"name":"f"}\n<tool_call>{"name":"g"}', [("f", {}), ("g", {})]),
        ('<tool_call>{"name":"f"}\nthat is all', [("f", {})]),
        # XML style without the wrapper; values stay text unless they are JSON
        ("<function=f>\n<parameter=a>\n3\n</parameter>\n</function>", [("f", {"a": 3})]),
        ('<function=f><parameter=a>{"b": [1]}</parameter></function>', [("f", {"a": {"b": [1]}})]),
        ("<function=f><parameter=a>007</parameter></function>", [("f", {"a": "007"})]),
        ("<function=f><parameter=a>two\nlines</parameter></function>", [("f", {"a": "two\nlines"})]),
        (
            "<function=f><parameter=a>" + "[" * 40 + "]" * 40 + "</parameter></function>",
            [("f", {"a": "[" * 40 + "]" * 40})],
        ),
        ("<function=f><parameter=a>NaN</parameter></function>", [("f", {"a": "NaN"})]),
        # think blocks
        ("<think>" + block('{"name":"f"}') + "</think>" + block('{"name":"g"}'), [("g", {})]),
        (block('{"name":"f"}') + "</think>" + block('{"name":"g"}'), [("g", {})]),
        ("<think>" + block('{"name":"f"}'), []),
        # no call at all
        ("", []),
        ("hello", []),
        ("</tool_call></function>", []),
    ],
)
def test_calls_are_read(text, expected):
    if expected is None:
        expected = [("f", {"a": "</tool_call><answer>done</answer>"})]
    calls = parse_tool_calls(text)
    assert [(call.name, call.arguments) for call in calls] == expected
    assert all(call.error is None for call in calls)


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        (block("bad"), "", "not valid JSON"),
        (block(""), "", "empty"),
        (block("[]"), "", "empty"),
        (block('{"name":"f","arguments":{"a":1'), "", "not valid JSON"),
        ('<tool_call>{"name":"f","arguments":{"a":1', "", "not valid JSON"),
        ('<tool_call>{"name":"f","argum', "", "not valid JSON"),
        (block("{'name': 'f'}"), "", "not valid JSON"),
        (block('{"name":"f"} and so on'), "", "not valid JSON"),
        (block('{"name":"f","arguments":{"a":NaN}}'), "", "NaN"),
        (block('{"name":"f","arguments":{"a":1e999}}'), "", "out of range"),
        (block("[" * 100_000), "", "not valid JSON"),
        (block('{"name":"f","arguments":{"a":' + "9" * 5000 + "}}"), "", "out of range"),
        (block('{"name":"f","arguments":{"a":' + "[" * 40 + "]" * 40 + "}}"), "f", "levels deep"),
        (block("3"), "", "a number"),
        (block("true"), "", "a boolean"),
        (block("null"), "", "null"),
        (block('"f"'), "", "a string"),
        (block("[[]]"), "", "a list"),
        (block('{"arguments":{}}'), "", '"name"'),
        (block('{"name":3}'), "", '"name"'),
        (block('{"name":"  "}'), "", '"name"'),
        (block('{"name":"' + "f" * 300 + '"}'), "", '"name"'),
        (block('{"name":"f","arguments":[1]}'), "f", "a list"),
        (block('{"name":"f","arguments":"[1]"}'), "f", "a list"),
        (block('{"name":"f","arguments":3}'), "f", "a number"),
        (block('{"name":"f","arguments":"{a:1"}'), "f", "not valid JSON"),
        ("<function=f><parameter=a>3</parameter>", "", "cut off"),
        ("<function=f><parameter=a>3</parameter></tool_call>", "", "cut off"),
        ("<function=f></function", "", "cut off"),
        ("<function=></function>", "", "no name"),
        ("<function=f</function>", "", "no name"),
        ("<function=f><parameter=a>3</function>", "f", "parameter"),
        ("<function=f><parameter=>3</parameter></function>", "f", "parameter"),
    ],
)
def test_a_malformed_call_says_what_is_wrong(text, name, words):
    (call,) = parse_tool_calls(text)
    assert call.name == name
    assert call.arguments is None
    assert words in call.error


def test_a_malformed_call_does_not_spoil_its_neighbours():
    calls = parse_tool_calls(block('{"name":"f"}') + block("bad") + '<tool_call>{"name":' + block('{"name":"g"}'))
    assert [call.name for call in calls] == ["f", "", "", "g"]
    assert [call.error is None for call in calls] == [True, False, False, True]


def test_the_number_of_calls_is_capped():
    for text in (
        block('{"name":"f"}') * 1000,
        block('{"name":"f"}' * 1000),
        block("[" + '{"name":"f"},' * 999 + "{}]"),
    ):
        calls = parse_tool_calls(text)
        assert len(calls) == MAX_CALLS_PER_ACTION + 1
        assert "more than" in calls[-1].error


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<answer> done </answer>", "done"),
        ("<answer></answer>", ""),
        ("<answer>a</answer><answer>b</answer>", "b"),
        ("<answer>a <answer>b</answer>", "b"),
        ("<answer>done", None),
        ("done</answer>", None),
        ("<think><answer>a</answer></think>", None),
        (block('{"name":"f","arguments":{"a":"<answer>done</answer>"}}'), None),
        ("<answer>a " + block('{"name":"f"}') + "</answer>", None),
        (block('{"name":"f"}') + "<answer>done</answer>", "done"),
    ],
)
def test_the_answer_is_the_last_complete_one_outside_calls(text, answer):
    assert parse_action(text).answer == answer


@pytest.mark.parametrize(
    ("text", "visible"),
    [
        ("a<think>b</think>c", "ac"),
        ("a<think>b<think>c</think>d</think>e", "ae"),
        ("a</think>b", "b"),
        ("a<think>b", "a"),
        ("a<think>b</think>c</think>d", "d"),
        ("plain", "plain"),
    ],
)
def test_think_blocks_are_removed(text, visible):
    assert remove_think_blocks(text) == visible


PIECES = st.sampled_from(
    [
        *("<tool_call>", "</tool_call>", "<function=", "f>", "</function>", "<parameter=", "</parameter>"),
        *("<answer>", "</answer>", "<think>", "</think>", '{"name":', '"f"', ',"arguments":', "{", "}"),
        *("[", "]", '"', "\\", "```json", "1"),
    ]
)


@given(st.one_of(st.text(), st.lists(st.one_of(PIECES, st.text(max_size=3))).map("".join)))
@settings(max_examples=500, deadline=None)
def test_parsing_never_raises_and_every_call_is_either_arguments_or_error(text):
    for call in parse_action(text).calls:
        assert (call.arguments is None) != (call.error is None)


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**90), 10**90)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(st.text(), JSON_VALUES, max_size=3), min_size=1, max_size=4), st.booleans())
@settings(deadline=None)
def test_written_calls_are_read_back(arguments, double_encoded):
    text = "".join(
        block(json.dumps({"name": "f", "arguments": json.dumps(item) if double_encoded else item}))
        for item in arguments
    )
    if "think>" not in text:
        assert [call.arguments for call in parse_tool_calls(text)] == arguments


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"' * 8000,
        '<tool_call>{"a":"' * 6000,
        "<function=" * 10_000,
        "<function=f><parameter=" * 5000,
        "<answer>" * 12_000,
        "<think>" * 12_000 + "</think>" * 12_000,
        "```" * 30_000,
        "<tool_call>" + " " * 100_000 + "x",
    ],
    ids=range(8),
)
def test_hostile_text_is_parsed_quickly(text):
    start = time.perf_counter()
    parse_action(text)
    assert time.perf_counter() - start < 2.0


@pytest.mark.parametrize(
    ("answer", "expected", "match"),
    [
        ("$1200.5", "1,200.50", True),
        ("1200.505", "1,200.50", True),
        ("1200.52", "1,200.50", False),
        ("1200.5", "1,200.50", True),
        (" DONE ", "done", True),
        ("new  york", "New York", True),
        ("don", "done", False),
        ("", "done", False),
        ("", "0", False),
        ("$", "0", False),
        ("-", "0", False),
        ("12.5%", "12.5", True),
        ("-3", "3", False),
        ("+3", "3", True),
        ("42.4", "42", False),
        ("42.00", "42", True),
        ("0.0014", "0.0012", False),
        ("0.00121", "0.0012", True),
        ("12,3", "1,2,3", False),
        ("1.2e3", "1200", True),
        ("inf", "nan", False),
        ("9" * 400, "8" * 400, False),
        ("9" * 5000, "1", False),
        ("1e999", "2e999", False),
        ("٣", "3", False),
    ],
)
def test_answers_are_compared_as_numbers_or_text(answer, expected, match):
    assert answers_match(answer, expected) is match


@given(st.text(), st.text())
def test_comparing_never_raises(answer, expected):
    answers_match(answer, expected)
    assert answers_match(answer, answer)
