r"""Reading tool calls and answers out of the text of an action.

Standard library only: the module is imported inside the jail, next to generated programs. Whatever a
player writes, parsing returns; a call that cannot be understood comes back with its ``error`` set.

Accepted forms::

    <tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>
    <tool_call>[{"name": "f", "arguments": "{\"a\": 1}"}, {"name": "g", "parameters": {}}]</tool_call>
    <tool_call><function=f><parameter=a>3</parameter></function></tool_call>
    <function=f><parameter=a>3</parameter></function>
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NamedTuple

MAX_CALLS_PER_ACTION = 64
CALL_FORMAT = '<tool_call>{"name": "...", "arguments": {...}}</tool_call>'

_TAG = re.compile(r"<tool_call>|<function=|</?answer>")
_NUMBER = re.compile(r"[-+]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)?(?:\.([0-9]*))?(?:e[-+]?[0-9]{1,3})?")
_CALL_TAG = re.compile(r"</?tool_call>")
_FUNCTION_END = re.compile(r"</function>|</?tool_call>|<function=")
_GAP = re.compile(r"(?:\s|```(?:json)?)*")
_THINK = re.compile(r"</?think>")
_CLOSING = "</tool_call>"
_MAX_NAME_LENGTH = 200
_MAX_DEPTH = 32
_MAX_DIGITS = 100


class ParsedCall(NamedTuple):
    """One tool call of an action; exactly one of ``arguments`` and ``error`` is None.

    Attributes:
        name: Name of the tool, "" where it could not be read.
        arguments: Keyword arguments of the call.
        error: What was wrong with the call and what is allowed.
    """

    name: str
    arguments: dict[str, Any] | None
    error: str | None


class ParsedAction(NamedTuple):
    """All calls of an action in the order of the text, and its last complete answer."""

    calls: list[ParsedCall]
    answer: str | None


def parse_tool_calls(text: str) -> list[ParsedCall]:
    """Returns the tool calls of ``text`` in order; never raises."""
    return parse_action(text).calls


def parse_action(text: str) -> ParsedAction:
    """Reads the calls and the answer of an action; never raises.

    Think blocks are ignored, and so are answers quoted inside a call.
    """
    text = remove_think_blocks(text)
    calls: list[ParsedCall] = []
    answer: str | None = None
    answer_start: int | None = None
    position = 0
    while (tag := _TAG.search(text, position)) is not None:
        position = tag.end()
        if tag.group() == "<answer>":
            answer_start = position
        elif tag.group() == "</answer>":
            if answer_start is not None:
                answer = text[answer_start : tag.start()].strip()
            answer_start = None
        else:
            answer_start = None
            read = _read_block if tag.group() == "<tool_call>" else _read_function
            found, position = read(text, position)
            calls += found
        if len(calls) > MAX_CALLS_PER_ACTION:
            problem = f"more than {MAX_CALLS_PER_ACTION} tool calls in one action; the rest was ignored"
            calls[MAX_CALLS_PER_ACTION:] = [_malformed(problem)]
            break
    return ParsedAction(calls, answer)


def remove_think_blocks(text: str) -> str:
    """Drops ``<think>`` blocks: nested, unclosed, or opened before the text began."""
    if "<think>" not in text and "</think>" not in text:
        return text
    kept: list[str] = []
    depth = start = 0
    for tag in _THINK.finditer(text):
        if tag.group() == "<think>":
            if depth == 0:
                kept.append(text[start : tag.start()])
            depth += 1
            continue
        if depth == 0:
            kept.clear()  # the chat template wrote the opening tag into the prompt
        depth = max(depth - 1, 0)
        start = tag.end()
    if depth == 0:
        kept.append(text[start:])
    return "".join(kept)


def answers_match(answer: str, expected: str) -> bool:
    """Compares an answer with the expected one: as numbers if both are numbers, otherwise as text.

    Text is compared without regard to case and white space. Numbers may carry "$", "%" and thousands
    separators; they agree within half a unit of the second decimal place, or of the last one that
    ``expected`` shows if it shows more ("1,200.50" accepts "1200.505", not "1200.52").
    """
    if "".join(answer.split()).casefold() == "".join(expected.split()).casefold():
        return True
    given, wanted = _number(answer), _number(expected)
    if given is None or wanted is None:
        return False
    decimals = max(2, min(wanted[1], 12))
    tolerance = 0.5 * 10.0**-decimals * (1 + 1e-6)  # the factor absorbs binary rounding at the boundary
    return math.isclose(given[0], wanted[0], rel_tol=1e-12, abs_tol=tolerance)


def _number(text: str) -> tuple[float, int] | None:
    """Returns the value and the number of decimals shown; None if the text is no finite number."""
    bare = "".join(text.split()).replace("$", "").replace("%", "").lower()
    match = _NUMBER.fullmatch(bare)
    if match is None or not any(char.isdigit() for char in bare.partition("e")[0]):
        return None
    value = float(bare.replace(",", ""))
    return (value, len(match.group(1) or "")) if math.isfinite(value) else None


def _finite_float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"number out of range: {digits[:40]}")
    return value


def _bounded_int(digits: str) -> int:
    # Beyond this, ordinary arithmetic of a program overflows (int to float) or refuses to print.
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"number out of range: {digits[:40]}")
    return int(digits)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(
    strict=False, parse_float=_finite_float, parse_int=_bounded_int, parse_constant=_refuse_constant
)


def _malformed(problem: str, name: str = "") -> ParsedCall:
    return ParsedCall(name, None, problem)


def _gap_end(text: str, position: int) -> int:
    gap = _GAP.match(text, position)
    return gap.end() if gap else position


def _read_block(text: str, position: int) -> tuple[list[ParsedCall], int]:
    """Reads the JSON values that follow ``<tool_call>``; returns the calls and where to go on."""
    values: list[Any] = []
    position = _gap_end(text, position)
    if text.startswith("<function=", position):
        return [], position
    while position < len(text) and not text.startswith(_CLOSING, position):
        try:
            value, end = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError) as exc:
            tag = _CALL_TAG.search(text, position)
            if values and (tag is None or tag.group() != _CLOSING):
                break  # an unclosed block whose calls were complete, then other text
            reason = exc.msg if isinstance(exc, json.JSONDecodeError) else str(exc)
            problem = f"the tool call is not valid JSON ({reason}); write {CALL_FORMAT}"
            stop = len(text) if tag is None else tag.end() if tag.group() == _CLOSING else tag.start()
            return [_malformed(problem)], stop
        values.append(value)
        position = _gap_end(text, end)
    if not values:
        return [_malformed(f"the tool call is empty; write {CALL_FORMAT}")], position
    return [call for value in values for call in _calls_from(value)], position


def _calls_from(value: Any) -> list[ParsedCall]:
    if not isinstance(value, list):
        return [_call_from(value)]
    if not value:
        return [_malformed(f"the list of tool calls is empty; write {CALL_FORMAT}")]
    return [_call_from(item) for item in value]


def _call_from(value: Any) -> ParsedCall:
    if isinstance(value, dict) and isinstance(value.get("function"), dict):
        value = value["function"]  # the OpenAI message form {"type": "function", "function": {...}}
    if not isinstance(value, dict):
        return _malformed(f"a tool call must be a JSON object, got {_json_type(value)}; write {CALL_FORMAT}")
    name = value.get("name")
    if not isinstance(name, str) or not name.strip() or len(name) > _MAX_NAME_LENGTH:
        return _malformed(f'a tool call needs a "name" that is a tool\'s name; write {CALL_FORMAT}')
    name = name.strip()
    arguments = value.get("arguments", value.get("parameters"))
    if isinstance(arguments, str):
        try:
            arguments = _decode_whole(arguments) if arguments.strip() else {}
        except (ValueError, RecursionError):
            return _malformed("the arguments are a string that is not valid JSON; write a JSON object", name)
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        return _malformed(f"the arguments must be a JSON object, got {_json_type(arguments)}", name)
    if _is_deeper_than(_MAX_DEPTH, arguments):
        return _malformed(f"the arguments are nested more than {_MAX_DEPTH} levels deep", name)
    return ParsedCall(name, arguments, None)


def _is_deeper_than(limit: int, value: Any) -> bool:
    """Tells whether printing or copying ``value`` might exhaust the stack of a program's tool."""
    level = [value]
    for _ in range(limit):
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return False
    return True


def _json_type(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, str):
        return "a string"
    return "a list" if isinstance(value, list) else "a number"


def _read_function(text: str, position: int) -> tuple[list[ParsedCall], int]:
    """Reads one call of the XML style, ``position`` being just after ``<function=``."""
    end = _FUNCTION_END.search(text, position)
    if end is None or end.group() != "</function>":
        problem = "the call of the form <function=NAME> was cut off before </function>"
        return [_malformed(problem)], len(text) if end is None else end.start()
    name, separator, body = text[position : end.start()].partition(">")
    name = name.strip().strip("\"'")
    if not separator or not name or len(name) > _MAX_NAME_LENGTH:
        return [_malformed("the call of the form <function=NAME> has no name")], end.end()
    return [_function_call(name, body)], end.end()


def _function_call(name: str, body: str) -> ParsedCall:
    arguments: dict[str, Any] = {}
    for piece in body.split("<parameter=")[1:]:
        inside, closing, _ = piece.partition("</parameter>")
        key, separator, value = inside.partition(">")
        if not closing or not separator or not key.strip():
            problem = "a parameter must have the form <parameter=NAME>value</parameter>"
            return _malformed(problem, name)
        arguments[key.strip().strip("\"'")] = _parameter_value(value)
    return ParsedCall(name, arguments, None)


def _parameter_value(raw: str) -> Any:
    value = raw.removeprefix("\n").removesuffix("\n")
    try:
        decoded = _decode_whole(value)
    except (ValueError, RecursionError):
        return value
    return value if _is_deeper_than(_MAX_DEPTH, decoded) else decoded


def _decode_whole(raw: str) -> Any:
    return _DECODER.decode(raw)
