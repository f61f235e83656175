"""From texts to actions: boxing, announced commands, and the odd variants with which a program is probed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from spade_gym.programs.announcements import mentions
from spade_gym.programs.boxed import box
from spade_gym.programs.boxed import boxes as find_boxes
from spade_gym.programs.commands import discover

_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?!\w)")
_PLACEHOLDER = re.compile(r"<[^<>]{1,40}>|\{[^{}]{1,40}\}|\[[^\[\]]{1,40}\]")
#: What numbers in commands are replaced with (method, section 4).
NUMBERS = ("0", "1", "-1", "1000000000")

GARBAGE = ("\\boxed{xyzzy 7 ?}", "I am not sure what to do.", "", "\\boxed{}", "\\boxed")
#: Plain oddities, which a program must answer.
ODD_TEXTS = (
    "\\boxed{ }",
    "\\boxed{-}",
    "\\boxed{,}",
    "\\boxed{2.5}",
    "\\boxed{ß é 漢字 🙂}",
    "\\boxed{a\nb}",
    "\\boxed{" + "7" * 60 + "}",
    "\\boxed{" + "a " * 5000 + "}",
    "x" * 20_000,
    "\\boxed{1}\\boxed{2}",
)
#: Texts that hardly anybody plays; a program that raises on them has a blemish, not a flaw.
EXOTIC_TEXTS = (
    "\\boxed{\\frac{1}{2}}",
    "\\boxed{:}",
    "\\boxed{/}",
    "\\boxed{1/0}",
    "\\boxed{1e400}",
    "\\boxed{nan}",
    "\\boxed{²}",
    "\\boxed{٣}",
    "\\boxed{None}",
    "\\boxed{" + "7" * 5000 + "}",
    "\u0000\t\r\n\\boxed{\u0000}",
)


class Announcement(NamedTuple):
    r"""Actions that observations announce.

    Attributes:
        commands: Concrete commands, without their box.
        examples: Boxes that only show the form of an answer ("like ``\boxed{Arlo}``").
        templates: Commands with placeholders.
        finite: The commands are all there is: no template, and no example stands for others.
    """

    commands: tuple[str, ...]
    examples: tuple[str, ...]
    templates: tuple[str, ...]
    finite: bool


def boxes(text: str) -> list[str]:
    """Contents of the boxes in a text, in order."""
    return [found.content for found in find_boxes(text)]


def announced(texts: Iterable[str]) -> Announcement:
    """Collect what several observations announce; moves first announced come first."""
    commands: dict[str, None] = {}
    templates: dict[str, None] = {}
    examples: dict[str, None] = {}
    plain: set[str] = set()
    finite = True
    for text in dict.fromkeys(texts):
        found = discover(text)
        if not found.commands and not found.templates:
            continue  # "Unknown command." announces nothing, and takes nothing back
        finite = finite and found.finite
        commands.update(dict.fromkeys(found.commands))
        templates.update(dict.fromkeys(found.templates))
        for mention in mentions(text):
            if mention.role == "plain":
                plain.add(mention.content)
            else:
                examples[mention.content] = None
    shown = tuple(text for text in examples if text in commands and text not in plain)
    moves = tuple(command for command in commands if command not in shown)
    finite = finite and bool(moves) and not templates and not shown
    return Announcement(moves, shown, tuple(templates), finite)


def boxed(line: str) -> str:
    """Put a game command into a box, unless it stands in one."""
    return box(line)


def unboxed(action: str) -> str:
    """Content of the last box of an action; the action itself where it has none."""
    found = boxes(action)
    return found[-1] if found else action


def number_variants(command: str) -> list[str]:
    """The command with its numbers replaced, all at once and one at a time, by 0, 1, −1 and 10⁹."""
    spans = [match.span() for match in _NUMBER.finditer(command)]
    found: dict[str, None] = {}
    for number in NUMBERS:
        if spans:
            found[_NUMBER.sub(number, command)] = None
        if 1 < len(spans) <= 4:
            found.update(dict.fromkeys(command[:a] + number + command[b:] for a, b in spans))
    return [variant for variant in found if variant != command]


def is_huge(action: str) -> bool:
    """The action holds the number 10⁹, on which a program may loop for ever."""
    return NUMBERS[-1] in action


def shape_variants(command: str) -> list[str]:
    """The command cut short, doubled and with an argument too many."""
    words = command.split()
    variants = [words[0], " ".join(words[:-1]), f"{command} 1", f"{words[0]} x", command.upper()] if words else []
    return [variant for variant in dict.fromkeys(variants) if variant and variant != command]


def fill_template(template: str) -> list[str]:
    """A template with its placeholders replaced by numbers, a word and nothing."""
    return list(dict.fromkeys(_PLACEHOLDER.sub(value, template).strip() for value in (*NUMBERS, "2.5", "x", "")))


def tool_call(name: str, arguments: dict[str, Any]) -> str:
    """A tool call in the form in which agents make them."""
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments}, ensure_ascii=False)}</tool_call>"


def function_of(schema: Any) -> dict[str, Any]:
    """The ``function`` part of an OpenAI tool schema; ``{}`` where it has none."""
    inner = schema.get("function", schema) if isinstance(schema, dict) else {}
    return inner if isinstance(inner, dict) else {}


_VALUES: dict[str, Sequence[Any]] = {
    "string": ("", "1", "no such thing", "é 漢\n"),
    "integer": (0, 1, -1, 1_000_000_000),
    "number": (0, 1.5, -1, 1_000_000_000),
    "boolean": (True, False, True, False),
    "array": ([], ["x"], [], ["x", "x"]),
    "object": ({}, {"x": 1}, {}, {}),
}
_WRONG_VALUES: tuple[Any, ...] = (None, [], {"a": [1]}, "x", -1)


def tool_probes(tools: Sequence[Any], known: Sequence[str] = ()) -> list[str]:
    """Calls of every tool with values of the declared types: empty, small, negative, huge and unknown.

    Args:
        tools: OpenAI tool schemas.
        known: Texts that occur in the task, for example identifiers; used for text arguments as well.
    """
    calls: list[str] = []
    for schema in tools:
        function = function_of(schema)
        name, properties = str(function.get("name", "")), _properties(function)
        calls += [tool_call(name, {key: _value(kind, i, None) for key, kind in properties.items()}) for i in range(4)]
        calls += [
            tool_call(name, {key: _value(kind, i, text) for key, kind in properties.items()})
            for i, text in enumerate(known)
            if properties
        ]
    return list(dict.fromkeys(calls))


def wrong_typed_probes(tools: Sequence[Any]) -> list[str]:
    """Calls of every tool with arguments of types that its schema does not allow."""
    calls: list[str] = []
    for schema in tools:
        function = function_of(schema)
        properties = _properties(function)
        calls += [tool_call(str(function.get("name", "")), dict.fromkeys(properties, value)) for value in _WRONG_VALUES]
    return list(dict.fromkeys(calls))


def _properties(function: dict[str, Any]) -> dict[str, dict[str, Any]]:
    parameters = function.get("parameters")
    properties = parameters.get("properties") if isinstance(parameters, dict) else None
    if not isinstance(properties, dict):
        return {}
    return {str(key): kind if isinstance(kind, dict) else {} for key, kind in properties.items()}


def _value(kind: dict[str, Any], index: int, text: str | None) -> Any:
    options = kind.get("enum")
    if isinstance(options, list) and options:
        return options[index % len(options)]
    declared = kind.get("type")
    name = str(declared[0] if isinstance(declared, list) and declared else declared)
    if name == "array" and text is not None:
        return [text]
    if text is not None and name not in ("integer", "number", "boolean", "object"):
        return text
    values = _VALUES.get(name, _VALUES["string"])
    return values[index % len(values)]
