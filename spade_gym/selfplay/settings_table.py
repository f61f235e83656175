"""How a frozen dataclass is read from a TOML table: unknown keys and wrong types are errors that teach."""

from __future__ import annotations

import dataclasses
import difflib
import types
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from spade_gym.errors import SpadeError

T = TypeVar("T")


class RecipeError(SpadeError):
    """A recipe that is unknown, or holds a table, key or value that it must not hold."""


def read_table(kind: type[T], table: Mapping[str, Any], where: str) -> T:
    """Make a frozen dataclass from a table; tables inside it become the dataclasses of their fields.

    Args:
        kind: The dataclass; its field types are plain values, literals, tuples, dicts or dataclasses.
        table: The table.
        where: Its name in messages, for example ``[cycle]``.

    Raises:
        RecipeError: An unknown key (the nearest one is named), a value of a wrong type, or one that is out of range.
    """
    if not isinstance(table, Mapping):
        raise RecipeError(f"{where} must be a table, got {table!r:.100}")
    hints = get_type_hints(kind)
    names = [item.name for item in dataclasses.fields(kind)]  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in names:
            near = difflib.get_close_matches(str(key), names, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise RecipeError(f"{where} has no key {key!r}{hint} Its keys are {', '.join(names)}")
        values[key] = _fitted(hints[key], value, f"{where} {key}")
    try:
        return kind(**values)
    except (TypeError, ValueError) as error:
        raise RecipeError(f"{where}: {error}") from error


def _fitted(kind: Any, value: Any, where: str) -> Any:
    """The value as its field needs it."""
    origin, arguments = get_origin(kind), get_args(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return read_table(kind, value, where)
    if origin in (Union, types.UnionType):
        return _fitted_to_one(arguments, value, where)
    if origin is Literal:
        if value not in arguments:
            raise RecipeError(f"{where} must be one of {', '.join(map(repr, arguments))}, got {value!r}")
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise RecipeError(f"{where} must be a list, got {value!r:.100}")
        return tuple(_fitted(arguments[0], item, f"{where}[{place}]") for place, item in enumerate(value))
    if origin in (dict, Mapping) or kind is dict:
        if not isinstance(value, Mapping):
            raise RecipeError(f"{where} must be a table, got {value!r:.100}")
        return dict(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise RecipeError(f"{where} must be of type {kind.__name__}, got {value!r:.100} of type {type(value).__name__}")
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
