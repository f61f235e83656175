"""Do the arguments of a tool call fit the tool's schema? Without this, a player could crash a tool, and so void a play.

Lossless differences that models and XML-style calls produce are settled ("5" for an integer, 5 for a string, 5.0 for
5); a ``null`` for an optional argument stands for leaving it out. Standard library only: this runs inside the jail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_MAX_DIGITS = 100


class Mismatch(Exception):
    """A value does not fit its declared type; the text says what was wanted."""


def fit_arguments(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Fit arguments to the ``parameters`` part of a tool's schema.

    Args:
        arguments: By name.
        schema: A JSON schema of type object; unknown or missing parts allow anything.

    Returns:
        The fitted arguments, and one text for each that does not fit.
    """
    properties = _mapping(schema.get("properties"))
    required = schema.get("required")
    required = required if isinstance(required, list | tuple) else ()
    fitted: dict[str, Any] = {}
    problems = []
    for name, value in arguments.items():
        wanted = _mapping(properties.get(name))
        if value is None and name not in required and "null" not in _types(wanted):
            continue
        try:
            fitted[name] = _fit(value, wanted)
        except Mismatch as mismatch:
            problems.append(f"{name} must be {mismatch}, got {_kind(value)}")
    return fitted, problems


def _fit(value: Any, schema: Mapping[str, Any]) -> Any:
    types = [name for name in _types(schema) if name in _FITTERS]
    if not types:
        return value
    for name in types:
        if _is_exactly(value, name):
            return _fit_items(value, schema)
    for name in types:
        try:
            return _FITTERS[name](value)
        except (TypeError, ValueError, OverflowError):
            continue
    raise Mismatch(" or ".join(_NAMES[name] for name in types))


def _fit_items(value: Any, schema: Mapping[str, Any]) -> Any:
    items = _mapping(schema.get("items"))
    if not isinstance(value, list) or not items:
        return value
    try:
        return [_fit(item, items) for item in value]
    except Mismatch as mismatch:
        raise Mismatch(f"an array of which each item is {mismatch}") from None


def _types(schema: Mapping[str, Any]) -> tuple[str, ...]:
    types = schema.get("type")
    if isinstance(types, str):
        return (types,)
    return tuple(name for name in types if isinstance(name, str)) if isinstance(types, list | tuple) else ()


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _is_exactly(value: Any, name: str) -> bool:
    if name in ("integer", "number"):
        return type(value) is int or (name == "number" and type(value) is float)
    return type(value) is {"string": str, "boolean": bool, "array": list, "object": dict, "null": type(None)}[name]


def _string(value: Any) -> str:
    if type(value) not in (int, float):
        raise TypeError
    return str(value)


def _integer(value: Any) -> int:
    if type(value) is float and value.is_integer():
        return int(value)
    if type(value) is str and len(value) <= _MAX_DIGITS:
        return int(value)
    raise TypeError


def _number(value: Any) -> float:
    if type(value) is str and len(value) <= _MAX_DIGITS:
        number = float(value)
        if number - number == 0.0:
            return int(value) if value.strip().lstrip("+-").isdigit() else number
    raise TypeError


def _boolean(value: Any) -> bool:
    if type(value) is str and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise TypeError


def _never(value: Any) -> Any:
    raise TypeError


_FITTERS: dict[str, Callable[[Any], Any]] = {
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "array": _never,
    "object": _never,
    "null": _never,
}
_NAMES = {
    "string": "a string", "integer": "an integer", "number": "a number", "boolean": "true or false",
    "array": "an array", "object": "an object", "null": "null",
}  # fmt: skip


def _kind(value: Any) -> str:
    return {
        type(None): "null", bool: "a boolean", int: "an integer", float: "a number", str: "a string",
        list: "an array", dict: "an object",
    }.get(type(value), type(value).__name__)  # fmt: skip
