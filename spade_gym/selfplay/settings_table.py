"""How a frozen dataclass is read from a TOML table: unknown keys and wrong types are errors that teach."""

from __future__ import annotations

import dataclasses
import difflib
import math
import types
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from spade_gym.errors import SpadeError
from spade_gym.plain_file import shown

T = TypeVar("T")
#: Deepest nesting of tables and lists, and the largest whole number: what every reader of a run can hold.
_MAX_DEPTH = 32
_MAX_INT = 2**63 - 1


class RecipeError(SpadeError):
    """A recipe that is unknown, or holds a table, key or value that it must not hold."""


def read_table(kind: type[T], table: Mapping[str, Any], where: str) -> T:
    """Make a frozen dataclass from a table; tables inside it become the dataclasses of their fields.

    Args:
        kind: The dataclass; its field types are plain values, literals, tuples, dicts or dataclasses.
        table: The table.
        where: Its name in messages, for example ``[cycle]``.

    Raises:
        RecipeError: An unknown key (the nearest one is named), a value of a wrong type, or one that is out of range:
            numbers are finite, whole numbers have at most 64 bits, and values nest at most 32 deep.
    """
    if not isinstance(table, Mapping):
        raise RecipeError(f"{where} must be a table, got {shown(table)}")
    _check_plain(table, where)
    hints = get_type_hints(kind)
    names = [item.name for item in dataclasses.fields(kind)]  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in names:
            near = difflib.get_close_matches(str(key), names, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise RecipeError(f"{where} has no key {shown(key)}{hint} Its keys are {', '.join(names)}")
        values[key] = _fitted(hints[key], value, f"{where} {key}")
    try:
        return kind(**values)
    except (TypeError, ValueError) as error:
        raise RecipeError(f"{where}: {error}") from error


def _check_plain(table: Mapping[str, Any], where: str) -> None:
    """Refuse values that cannot be kept as JSON, sent to another process or computed with."""
    waiting: list[tuple[str, Any, int]] = [(where, table, 0)]
    while waiting:
        name, value, depth = waiting.pop()
        if depth > _MAX_DEPTH:
            raise RecipeError(f"{where} nests tables or lists more than {_MAX_DEPTH} deep; make it flatter")
        if isinstance(value, Mapping):
            waiting += [(f"{name} {key:.40}", item, depth + 1) for key, item in value.items()]
        elif isinstance(value, list | tuple):
            waiting += [(f"{name}[{place}]", item, depth + 1) for place, item in enumerate(value)]
        elif isinstance(value, int) and not -_MAX_INT <= value <= _MAX_INT:
            raise RecipeError(f"{name} must be from {-_MAX_INT} to {_MAX_INT}, got {shown(value)}")
        elif isinstance(value, float) and not math.isfinite(value):
            raise RecipeError(f"{name} must be a finite number, got {value!r}")
        elif not isinstance(value, str | int | float | None):
            raise RecipeError(f"{name} must be a text, number, bool, list or table, got {shown(value)}")


def _fitted(kind: Any, value: Any, where: str) -> Any:
    """The value as its field needs it."""
    origin, arguments = get_origin(kind), get_args(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return read_table(kind, value, where)
    if origin in (Union, types.UnionType):
        return _fitted_to_one(arguments, value, where)
    if origin is Literal:
        if value not in arguments:
            raise RecipeError(f"{where} must be one of {', '.join(map(repr, arguments))}, got {shown(value)}")
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise RecipeError(f"{where} must be a list, got {shown(value)}")
        return tuple(_fitted(arguments[0], item, f"{where}[{place}]") for place, item in enumerate(value))
    if origin in (dict, Mapping) or kind is dict:
        if not isinstance(value, Mapping):
            raise RecipeError(f"{where} must be a table, got {shown(value)}")
        return dict(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise RecipeError(f"{where} must be of type {kind.__name__}, got {shown(value)} of type {type(value).__name__}")
    return value


def _fitted_to_one(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    errors = []
    for kind in kinds:
        if kind is type(None):
            if value is None:
                return None
            continue
        try:
            return _fitted(kind, value, where)
        except RecipeError as error:
            errors.append(str(error))
    raise RecipeError(errors[0])
