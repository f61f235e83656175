"""Are these numbers usable? What is not finite, or not in its range, is refused by name."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def finite(name: str, values: npt.ArrayLike | Iterable[float]) -> Floats:
    """Return ``values`` as an array of finite 64-bit floats of unchanged shape.

    Raises:
        ValueError: A value is NaN or infinite; the message gives the first one and its place.
    """
    array = np.asarray(values, dtype=np.float64)
    if not np.isfinite(array).all():
        place = np.argwhere(~np.isfinite(array))[0]
        where = f" at index {', '.join(str(i) for i in place)}" if array.ndim else ""
        raise ValueError(
            f"{name} must be finite, got {array[tuple(place)]}{where}; leave plays without a finite return out "
            "(they are a program's fault) instead of telling them"
        )
    return array


def column(name: str, values: npt.ArrayLike | Iterable[float]) -> Floats:
    """Return ``values`` as a one-dimensional array of finite floats.

    Raises:
        ValueError: A value is not finite, or the array is not one-dimensional.
    """
    array = finite(name, values)
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got shape {array.shape}")
    return array


def at_least(name: str, value: float, least: float, *, strictly: bool = False) -> None:
    """Refuse a setting below ``least`` (or at it, if ``strictly``), or one that is no finite number.

    Raises:
        ValueError: With the name, the value and what is allowed.
    """
    if not _is_number(value) or not np.isfinite(value) or value < least or (strictly and value == least):
        raise ValueError(f"{name} must be {'greater than' if strictly else 'at least'} {least:g}, got {value!r}")


def within(name: str, value: float, low: float, high: float) -> None:
    """Refuse a setting outside [low, high].

    Raises:
        ValueError: With the name, the value and what is allowed.
    """
    if not _is_number(value) or not low <= value <= high:
        raise ValueError(f"{name} must be from {low:g} to {high:g}, got {value!r}")


def value_range(name: str, value: object) -> tuple[float, float]:
    """Return a (low, high) pair of finite numbers with low < high.

    Raises:
        ValueError: With the name, the value and what is allowed.
    """
    pair = tuple(value) if isinstance(value, tuple | list) else ()
    if len(pair) != 2 or not all(_is_number(end) and np.isfinite(end) for end in pair) or not pair[0] < pair[1]:
        raise ValueError(f"{name} must be a finite (low, high) with low < high, got {value!r}")
    return float(pair[0]), float(pair[1])


def whole_number(name: str, value: object, *, least: int) -> None:
    """Refuse a setting that is no whole number, or one below ``least``.

    Raises:
        ValueError: With the name, the value and what is allowed.
    """
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")


def true_or_false(name: str, value: object) -> None:
    """Refuse a setting that is neither.

    Raises:
        ValueError: With the name and the value.
    """
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false, got {value!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)
