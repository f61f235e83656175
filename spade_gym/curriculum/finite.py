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
    """Refuse a setting below ``least`` (or at it, if ``strictly``), or one that is not finite.

    Raises:
        ValueError: With the name, the value and what is allowed.
    """
    if not np.isfinite(value) or value < least or (strictly and value == least):
        raise ValueError(f"{name} must be {'greater than' if strictly else 'at least'} {least:g}, got {value!r}")


def within(name: str, value: float, low: float, high: float) -> None:
    """Refuse a setting outside [low, high].

    Raises:
        ValueError: With the name, the value and what is allowed.
    """
    if not low <= value <= high:
        raise ValueError(f"{name} must be from {low:g} to {high:g}, got {value!r}")
