"""Which settings must a run keep from one start to the next?"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spade_gym.curriculum.curriculum import Curriculum


def settings_of(curriculum: Curriculum) -> dict[str, Any]:
    """Return what must be the same for a resumed run, as JSON values."""
    memory = curriculum.memory
    parts = {name: getattr(curriculum, name) for name in ("scorer", "schedule", "sampler", "generator")}
    return {
        "seed": int(curriculum.seed),
        "capacity": memory.capacity, "eviction": memory.eviction, "plays_kept": memory.plays_kept,
        "return_range": list(curriculum.return_range), "group_size": curriculum.group_size,
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


def difference(before: dict[str, Any], now: dict[str, Any]) -> str | None:
    """Return the first setting in which two runs differ, in words; ``None`` where they agree."""
    for name, value in now.items():
        if name in before and before[name] != value:
            return f"{name} = {before[name]!r}, and now it is {value!r}"
    return None
