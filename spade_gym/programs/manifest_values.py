"""Which values a manifest may hold: bounded texts and plain data, whoever wrote them.

A manifest may come from a stranger's pool. What passes here can be shown, written as TOML and JSON, and sent to a
program's worker without a surprise. All functions raise :class:`~spade_gym.errors.ManifestError`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from spade_gym.errors import ManifestError
from spade_gym.plain_file import shown

#: Largest turn limit.
MAX_TURNS = 1_000_000
#: Longest texts, in characters.
MAX_TEXT = 2_000
MAX_HINT = 50_000
#: Most items of a list of texts (commands, repairs, adapters), and characters of one and of all.
MAX_ITEMS, MAX_ITEM_CHARS, MAX_LIST_CHARS = 2_000, 10_000, 100_000
#: Most entries of ``origin``, longest key and longest value in characters.
MAX_ORIGIN_ITEMS, MAX_ORIGIN_KEY, MAX_ORIGIN_TEXT = 100, 100, 10_000
#: Bounds of ``kwargs``: depth, number of values, and characters of all texts.
MAX_DEPTH, MAX_VALUES, MAX_KWARGS_CHARS = 16, 10_000, 100_000

_MIN_INT, _MAX_INT = -(1 << 63), (1 << 63) - 1


def check_text(where: str, value: Any, *, limit: int = MAX_TEXT) -> None:
    """Demand a text of characters (no lone surrogates) up to a length."""
    if not isinstance(value, str):
        raise ManifestError(f"{where} must be text, got {shown(value)}")
    if len(value) > limit:
        raise ManifestError(f"{where} has {len(value)} characters; at most {limit} are allowed: {shown(value)}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ManifestError(
            f"{where} holds a lone surrogate (half of a character) at {error.start}: "
            f"{shown(value[error.start : error.start + 9])}; give text that UTF-8 can write"
        ) from error


def check_turns(value: Any) -> None:
    """Demand a turn limit, or ``None``."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_TURNS:
        raise ManifestError(f"max_turns must be an integer from 1 to {MAX_TURNS}, or absent, got {shown(value)}")


def check_texts(where: str, value: Any) -> tuple[str, ...]:
    """Demand a list of texts and return it as a tuple."""
    if isinstance(value, str | bytes | Mapping) or not hasattr(value, "__iter__"):
        raise ManifestError(f"{where} must be a list of texts, got {shown(value)}")
    items = tuple(value)
    if len(items) > MAX_ITEMS:
        raise ManifestError(f"{where} has {len(items)} items; at most {MAX_ITEMS} are allowed (templates cover many)")
    for index, item in enumerate(items):
        check_text(f"{where}[{index}]", item, limit=MAX_ITEM_CHARS)
    total = sum(map(len, items))
    if total > MAX_LIST_CHARS:
        raise ManifestError(f"{where} has {total} characters in all; at most {MAX_LIST_CHARS} are allowed")
    return items


def check_origin(value: Any) -> None:
    """Demand a table of texts."""
    _check_table("origin", value)
    if len(value) > MAX_ORIGIN_ITEMS:
        raise ManifestError(f"origin has {len(value)} entries; at most {MAX_ORIGIN_ITEMS} are allowed")
    for key, text in value.items():
        check_text("a key of origin", key, limit=MAX_ORIGIN_KEY)
        check_text(f"origin.{key}", text, limit=MAX_ORIGIN_TEXT)


def check_kwargs(value: Any) -> None:
    """Demand a table of plain data: text, true and false, 64-bit integers, finite numbers, lists and tables."""
    _check_table("kwargs", value)
    budget = [MAX_VALUES, MAX_KWARGS_CHARS]
    _check_plain("kwargs", value, MAX_DEPTH, budget)


def _check_table(where: str, value: Any) -> None:
    if not isinstance(value, dict):
        raise ManifestError(f"{where} must be a table, got {shown(value)}")


def _check_plain(where: str, value: Any, depth: int, budget: list[int]) -> None:
    budget[0] -= 1
    if budget[0] < 0:
        raise ManifestError(f"kwargs holds more than {MAX_VALUES} values")
    if isinstance(value, str):
        _check_budgeted(where, value, budget)
    elif value is None or isinstance(value, bool):
        return
    elif isinstance(value, int):
        if not _MIN_INT <= value <= _MAX_INT:
            raise ManifestError(f"{where} must be an integer of at most 64 bits, got {shown(value)}")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ManifestError(f"{where} must be a finite number, got {value!r}")
    elif isinstance(value, dict | list | tuple):
        if depth == 0:
            raise ManifestError(f"kwargs is nested more than {MAX_DEPTH} levels deep")
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(value, dict):
                _check_budgeted(f"a key of {where[:200]}", key, budget)
            _check_plain(f"{where}.{key}"[:200], item, depth - 1, budget)
    else:
        raise ManifestError(
            f"{where} must be text, true or false, a number, a list or a table of these, "
            f"got {type(value).__name__}: {shown(value)}"
        )


def _check_budgeted(where: str, text: Any, budget: list[int]) -> None:
    check_text(where, text, limit=MAX_KWARGS_CHARS)
    budget[1] -= len(text)
    if budget[1] < 0:
        raise ManifestError(f"the texts of kwargs have more than {MAX_KWARGS_CHARS} characters in all")
