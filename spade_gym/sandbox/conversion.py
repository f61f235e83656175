"""From what programs return to plain text, numbers and flags; each adaptation is recorded by name.

This runs inside the worker. Values come from the program and may be hostile: subclasses of built-in types are
read past their own methods, and whatever an object raises all the same becomes the program's fault in the harness.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from spade_gym.sandbox.wire import INFO_BYTES, INFO_NODES, VALUE_BYTES, VALUE_NODES, encode

_MAX_DEPTH = 12
_NUMBER_BYTES = 9
_HEADER_BYTES = 5
_SLACK_BYTES = 64  # the last key and number may go a little beyond the budget
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


def to_plain(value: Any, max_bytes: int = VALUE_BYTES, max_nodes: int = VALUE_NODES) -> Any:
    """Convert values to what msgpack can carry: None, bool, int, float, text, lists and text-keyed dicts.

    Anything else becomes its ``repr``. Deep values are cut, and so is whatever would make the encoding longer than
    ``max_bytes`` or give it more than ``max_nodes`` values.
    """
    return _Plain(max_bytes, max_nodes).convert(value, 0)


def encoded_info(info: dict[Any, Any], note: Note) -> msgspec.Raw:
    """Convert and encode the info of a row, cut to what a row may carry."""
    plain = _Plain(INFO_BYTES, INFO_NODES)
    raw = msgspec.Raw(encode(plain.convert(info, 0)))
    if plain.has_cut:
        note("long_info")
    return raw


def encoded_value(value: Any) -> msgspec.Raw:
    """Convert and encode the answer to a question."""
    return msgspec.Raw(encode(to_plain(value)))


class _Plain:
    """Converts one value within a budget.

    Attributes:
        has_cut: Whether something did not fit.
    """

    def __init__(self, max_bytes: int, max_nodes: int) -> None:
        self.has_cut = False
        self._bytes = max_bytes - _SLACK_BYTES
        self._nodes = max_nodes

    def convert(self, value: Any, depth: int) -> Any:
        """The plain form of a value."""
        self._nodes -= 1
        self._bytes -= _NUMBER_BYTES
        kind = type(value)
        if value is None or kind is bool or kind is float:
            return value
        if kind is int:
            return value if -_WORD <= value < _WORD else self._text(safe_int(value))
        if isinstance(value, str):
            return self._text(clean_text(str.__str__(value), _ignore))
        if _is_numpy(value):
            return self.convert(value.tolist(), depth + 1) if depth < _MAX_DEPTH else self._text(safe_repr(value))
        if isinstance(value, int):
            return self.convert(int.__index__(value), depth)
        if isinstance(value, float):
            return float.__float__(value)
        return self._collection(value, depth) if isinstance(value, _COLLECTIONS) else self._text(safe_repr(value))

    def _text(self, text: str) -> str:
        size = len(text) if text.isascii() else len(text.encode("utf-8"))
        if size > self._bytes:
            self.has_cut = True
            encoded = text[: max(self._bytes, 0)].encode("utf-8")[: max(self._bytes, 0)]
            text = encoded.decode("utf-8", "ignore")
            size = len(encoded)
        self._bytes -= size
        return text

    def _collection(self, value: Any, depth: int) -> Any:
        """Plain form of a dict, list, tuple or set, or of a subclass of one, read past its own methods."""
        if depth >= _MAX_DEPTH:
            self.has_cut = True
            return self._text("<too deep>")
        if isinstance(value, dict):
            return {self._key(key): self.convert(item, depth + 1) for key, item in self._affordable(dict.items(value))}
        base: Any = next(kind for kind in _COLLECTIONS if isinstance(value, kind))
        plain = [self.convert(item, depth + 1) for item in self._affordable(base.__iter__(value))]
        return plain if base in (list, tuple) else sorted(plain, key=_sort_key)

    def _affordable(self, items: Iterable[Any]) -> Iterator[Any]:
        """The items until the budget is used up; a key and its number, at least, must fit."""
        for item in items:
            if self._nodes < 2 or self._bytes < 2 * _NUMBER_BYTES:
                self.has_cut = True
                return
            yield item

    def _key(self, key: Any) -> str:
        self._nodes -= 1
        self._bytes -= _HEADER_BYTES
        return self._text(clean_text(str.__str__(key), _ignore) if isinstance(key, str) else safe_repr(key))


def safe_int(value: int) -> str:
    """Text of an integer of any size (``str`` refuses more than 4,300 digits)."""
    return str(value) if value.bit_length() < 10_000 else f"<integer of {value.bit_length()} bits>"


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
