"""From what programs return to plain text, numbers and flags; each adaptation is recorded by name.

This runs inside the worker. Values come from the program and may be hostile: subclasses of built-in types are
read past their own methods, and whatever an object raises all the same becomes the program's fault in the harness.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from typing import Any

_MAX_DEPTH = 12
_MAX_ITEMS = 10_000
_MAX_INFO_TEXT = 100_000
_WORD = 1 << 63
_COLLECTIONS = (dict, list, tuple, set, frozenset)

Note = Callable[[str], None]


class BadResult(Exception):
    """A program returned something that is no observation, reward, flag or result."""


def safe_repr(value: Any, limit: int = 200) -> str:
    """Return ``repr(value)`` cut to ``limit`` characters, whatever the value's ``__repr__`` does."""
    try:
        text = str.__str__(repr(value))
    except BaseException:
        text = f"<{type(value).__name__} whose repr failed>"
    return text if len(text) <= limit else text[: limit - 1] + "…"


def clean_text(text: str, note: Note) -> str:
    """Replace lone surrogates, which no encoding can carry."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        note("lone_surrogates")
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def to_observation(value: Any, note: Note) -> str:
    """Convert an observation to text.

    Raises:
        BadResult: It is ``None`` or of a type with no text form.
    """
    kind = type(value)
    if kind is str:
        return clean_text(value, note)
    if isinstance(value, str):
        return clean_text(str.__str__(value), note)
    if isinstance(value, dict):
        note("dict_observation")
    elif _is_array(value):
        note("array_observation")
    elif isinstance(value, list | tuple | int | float) and kind is not bool:
        note("non_text_observation")
    else:
        raise BadResult(f"the observation must be text, got {kind.__name__}: {safe_repr(value)}")
    text = json.dumps(to_plain(value), ensure_ascii=False)
    return clean_text(text, note)


def to_reward(value: Any, note: Note) -> float:
    """Convert a reward to a finite float.

    Raises:
        BadResult: It is no number, or not finite.
    """
    kind = type(value)
    number: float
    if kind is float:
        number = value
    elif kind is int or kind is bool:
        number = _float(value)
    elif isinstance(value, float | int):
        number = _float(float.__float__(value) if isinstance(value, float) else int.__index__(value))
        note("numpy_scalar" if kind.__module__ == "numpy" else "number_subclass")
    elif _is_numpy(value) and getattr(value, "size", 0) == 1:
        note("numpy_scalar")
        number = _float(value.reshape(-1)[0].item() if getattr(value, "ndim", 0) else value.item())
    else:
        raise BadResult(f"the reward must be a number, got {kind.__name__}: {safe_repr(value)}")
    if not math.isfinite(number):
        raise BadResult(f"the reward must be finite, got {number!r}")
    return number


def to_flag(value: Any, name: str, note: Note) -> bool:
    """Convert ``terminated`` or ``truncated`` to a bool.

    Raises:
        BadResult: It is neither a bool nor something that stands for one (0, 1, a NumPy bool).
    """
    if value is True or value is False:
        return bool(value)
    if _is_numpy(value) and getattr(value, "size", 0) == 1:
        note("numpy_scalar")
        return bool(value.item())
    if type(value) is int and value in (0, 1):
        note("integer_flag")
        return value == 1
    raise BadResult(f"{name} must be True or False, got {type(value).__name__}: {safe_repr(value)}")


def to_plain(value: Any, depth: int = 0) -> Any:
    """Convert info values to what msgpack can carry: None, bool, int, float, text, lists and text-keyed dicts.

    Anything else becomes its ``repr``; deep, wide and long values are cut.
    """
    kind = type(value)
    if value is None or kind is bool or kind is float:
        return value
    if kind is int:
        return value if -_WORD <= value < _WORD else safe_int(value)
    if isinstance(value, str):
        text = clean_text(str.__str__(value), _ignore)
        return text if len(text) <= _MAX_INFO_TEXT else text[:_MAX_INFO_TEXT]
    if _is_numpy(value):
        return to_plain(value.tolist(), depth + 1) if depth < _MAX_DEPTH else safe_repr(value)
    if isinstance(value, int):
        return to_plain(int.__index__(value))
    if isinstance(value, float):
        return float.__float__(value)
    return _collection(value, depth) if isinstance(value, _COLLECTIONS) else safe_repr(value)


def _collection(value: Any, depth: int) -> Any:
    """Plain form of a dict, list, tuple or set, or of a subclass of one, read past its own methods."""
    if depth >= _MAX_DEPTH:
        return "<too deep>"
    if isinstance(value, dict):
        items = itertools.islice(dict.items(value), _MAX_ITEMS)
        return {_key(key): to_plain(item, depth + 1) for key, item in items}
    base: Any = next(kind for kind in _COLLECTIONS if isinstance(value, kind))
    plain = [to_plain(item, depth + 1) for item in itertools.islice(base.__iter__(value), _MAX_ITEMS)]
    return plain if base in (list, tuple) else sorted(plain, key=_sort_key)


def safe_int(value: int) -> str:
    """Text of an integer of any size (``str`` refuses more than 4,300 digits)."""
    return str(value) if value.bit_length() < 10_000 else f"<integer of {value.bit_length()} bits>"


def _key(key: Any) -> str:
    return clean_text(str.__str__(key), _ignore) if isinstance(key, str) else safe_repr(key)


def _sort_key(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=safe_repr)


def _ignore(name: str) -> None:
    """Notes about info values are not adapters of the program."""


def _float(value: Any) -> float:
    try:
        return float(value)
    except (OverflowError, TypeError, ValueError) as error:
        raise BadResult(f"the reward must be a finite number: {error}") from None


def _is_numpy(value: Any) -> bool:
    return type(value).__module__ == "numpy"


def _is_array(value: Any) -> bool:
    return _is_numpy(value) and type(value).__name__ == "ndarray"
