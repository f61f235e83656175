"""Which settings must a run keep from one start to the next?"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from spade_gym.curriculum.curriculum import Curriculum
from spade_gym.curriculum.store import StoreError


def settings_of(curriculum: Curriculum) -> dict[str, Any]:
    """Return what must be the same for a resumed run, as JSON values."""
    memory = curriculum.memory
    parts = {name: getattr(curriculum, name) for name in ("scorer", "schedule", "sampler", "generator")}
    return {
        "capacity": memory.capacity, "eviction": memory.eviction, "plays_kept": memory.plays_kept,
        "return_range": list(curriculum.return_range), "grouped": curriculum.grouped,
        "asks_per_window": curriculum.asks_per_window, "max_pending": curriculum.max_pending,
        **{name: _name_of(part) for name, part in parts.items()},
        "gates": [type(gate).__name__ for gate in curriculum.gates],
    }  # fmt: skip


def _name_of(part: Any) -> str:
    """Describe a part: settings too where they never change, and only its class where they may."""
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        frozen = type(part).__dataclass_params__.frozen  # type: ignore[attr-defined]
        return repr(part) if frozen else type(part).__name__
    function = getattr(part, "func", part)
    options = getattr(part, "keywords", {})
    name = getattr(function, "__name__", type(part).__name__)
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in sorted(options.items()))})" if options else name


def check_settings(before: dict[str, Any], now: dict[str, Any], path: Path) -> None:
    """Refuse to go on with a run whose settings were others.

    Raises:
        StoreError: A setting differs.
    """
    for name, value in now.items():
        if name in before and before[name] != value:
            raise StoreError(
                f"the run in {path} was begun with {name} = {before[name]!r}, and now it is {value!r}: start it with "
                "the settings that it had, or begin another run in another folder (export and import its memory)"
            )
