r"""What a person types, turned into the action that a program expects.

Games get ``\boxed{...}`` around the text. Tool use takes ``get_order order_id=17 note=left at door`` and builds
the tool call, with the arguments' types from the tool's schema; ``done`` sends the final answer.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_KEY = re.compile(r"(?<!\S)([A-Za-z_][A-Za-z0-9_-]*)=")
_DONE = "<answer>done</answer>"


class TypingMistake(ValueError):
    """What was typed cannot be sent; the message says how to write it. It costs no turn."""


def compose(typed: str, *, setting: str, tools: Sequence[Mapping[str, Any]] = ()) -> str:
    """Return the action for a typed line.

    Args:
        typed: One line without surrounding blanks, not empty.
        setting: The program's setting.
        tools: OpenAI-format schemas of the tools; empty when they are not known.

    Raises:
        TypingMistake: The line is no tool call that can be built.
    """
    if setting != "tool_use":
        return typed if r"\boxed{" in typed else rf"\boxed{{{typed}}}"
    if typed.startswith("<"):
        return typed
    if typed.casefold() in ("done", "answer", "finish"):
        return _DONE
    if typed.startswith("{"):
        return _wrap(_json_call(typed))
    return _wrap(_friendly_call(typed, {_name(tool): tool for tool in tools}))


def signature(tool: Mapping[str, Any]) -> str:
    """Describe a tool on one line: ``get_order order_id=<integer> [note=<string>]  What it does.``."""
    function = _function(tool)
    properties, required = _parameters(tool)
    parts = [_name(tool)]
    for key, schema in properties.items():
        part = f"{key}=<{_type(schema) or 'any'}>"
        parts.append(part if key in required else f"[{part}]")
    description = " ".join(str(function.get("description", "")).split())
    return " ".join(parts) + (f"  {description}" if description else "")


def _wrap(call: Mapping[str, Any]) -> str:
    return f"<tool_call>{json.dumps(call, ensure_ascii=False)}</tool_call>"


def _json_call(typed: str) -> dict[str, Any]:
    try:
        call = json.loads(typed)
    except (ValueError, RecursionError) as error:
        raise TypingMistake(f"this is no valid JSON: {error}") from error
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        raise TypingMistake('a tool call in JSON is {"name": "...", "arguments": {...}}')
    return call


def _friendly_call(typed: str, tools: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    name, _, rest = typed.partition(" ")
    if name in ("tool", "call") and name not in tools and rest.strip():
        name, _, rest = rest.strip().partition(" ")
    if tools and name not in tools:
        near = difflib.get_close_matches(name, tools, n=1)
        ask = f" Did you mean {near[0]}?" if near else ""
        raise TypingMistake(f"there is no tool {name!r}; :tools lists them, done ends.{ask}")
    if rest.lstrip().startswith("{"):
        return {"name": name, "arguments": _json_arguments(rest)}
    properties, required = _parameters(tools.get(name, {}))
    texts = _split(rest.strip(), properties)
    if properties:
        unknown = [key for key in texts if key not in properties]
        if unknown:
            raise TypingMistake(f"{name} takes {', '.join(properties)}, not {', '.join(unknown)}")
    missing = [key for key in required if key not in texts]
    if missing:
        raise TypingMistake(f"{name} also needs {', '.join(missing)}: {signature(tools[name])}")
    arguments = {key: _value(key, text, properties.get(key, {})) for key, text in texts.items()}
    return {"name": name, "arguments": arguments}


def _json_arguments(text: str) -> dict[str, Any]:
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TypingMistake(f"these arguments are no valid JSON: {error}") from error
    if not isinstance(arguments, dict):
        raise TypingMistake('arguments in JSON are {"name": value, ...}')
    return arguments


def _split(text: str, properties: Mapping[str, Any]) -> dict[str, str]:
    """Split ``key=value key=value``; values may hold blanks, quotes and JSON. A lone value needs no key."""
    starts = [match for match in _KEY.finditer(text) if _is_outside(text[: match.start()])]
    if not text:
        return {}
    before = text[: starts[0].start()].strip() if starts else text
    if before:
        if starts or len(properties) != 1:
            raise TypingMistake(f"write arguments as key=value, got {before!r}")
        return {next(iter(properties)): before}
    ends = [match.start() for match in starts[1:]] + [len(text)]
    return {match[1]: text[match.end() : end].strip() for match, end in zip(starts, ends, strict=True)}


def _is_outside(prefix: str) -> bool:
    """Tell whether a text ends outside double quotes and brackets."""
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', "", prefix)
    return '"' not in bare and sum(bare.count(char) for char in "[{") <= sum(bare.count(char) for char in "]}")


def _value(key: str, text: str, schema: Any) -> Any:
    """Read one argument as its schema's type; a text in quotes loses them."""
    kind = _type(schema)
    if kind == "string":
        return _unquoted(text)
    if kind == "array" and not text.startswith("["):
        items = schema.get("items", {}) if isinstance(schema, dict) else {}
        return [_value(key, part.strip(), items) for part in text.split(",") if part.strip()]
    if kind == "boolean" and text.casefold() in ("yes", "no", "true", "false"):
        return text.casefold() in ("yes", "true")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        if kind in ("", "null"):
            return _unquoted(text)
        raise TypingMistake(f"{key} must be of the type {kind}, got {text!r}") from None
    if not _fits(value, kind):
        raise TypingMistake(f"{key} must be of the type {kind}, got {text!r}")
    return value


def _fits(value: Any, kind: str) -> bool:
    if kind in ("integer", "number"):
        allowed = int if kind == "integer" else (int, float)
        return isinstance(value, allowed) and not isinstance(value, bool)
    types = {"boolean": bool, "array": list, "object": dict}
    return kind not in types or isinstance(value, types[kind])


def _unquoted(text: str) -> str:
    if len(text) >= 2 and text[0] == text[-1] == '"':
        try:
            return str(json.loads(text))
        except ValueError:
            return text[1:-1]
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return text[1:-1]
    return text


def _function(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    function = tool.get("function", tool)
    return function if isinstance(function, dict) else {}


def _name(tool: Mapping[str, Any]) -> str:
    return str(_function(tool).get("name", ""))


def _parameters(tool: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return a tool's properties and the names of the required ones; programs' schemas are not to be trusted."""
    parameters = _function(tool).get("parameters")
    if not isinstance(parameters, dict):
        return {}, []
    properties, required = parameters.get("properties"), parameters.get("required")
    properties = properties if isinstance(properties, dict) else {}
    names = [str(key) for key in required if key in properties] if isinstance(required, list) else []
    return {str(key): schema for key, schema in properties.items()}, names


def _type(schema: Any) -> str:
    kind = schema.get("type", "") if isinstance(schema, dict) else ""
    if isinstance(kind, list):
        kind = next((item for item in kind if item != "null"), "")
    return kind if isinstance(kind, str) else ""
