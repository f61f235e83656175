"""Curricula by name: each known method is one TOML table, put together from parts that also have names."""

from __future__ import annotations

import copy
import dataclasses
import difflib
import tomllib
from collections.abc import Callable, Iterable, Mapping
from importlib import resources
from typing import Any, cast

from spade_gym import plugins
from spade_gym.curriculum import generators, samplers, schedules
from spade_gym.curriculum.curriculum import Curriculum
from spade_gym.curriculum.gates import Gate
from spade_gym.curriculum.generators import Generator, SlidingDifficulty
from spade_gym.curriculum.memory import Memory, Scorer
from spade_gym.curriculum.samplers import Sampler
from spade_gym.curriculum.schedules import Schedule
from spade_gym.curriculum.scorers import BUILT_IN, bound

#: The preset that is taken when none is named: the best of ``spade-gym bench curricula``.
DEFAULT = "plr"

_SAMPLERS: Mapping[str, Callable[..., Sampler]] = {
    "uniform": samplers.Uniform,
    "prioritised": samplers.Prioritised,
    "proportional": samplers.Proportional,
    "best": samplers.Best,
    "exp3": samplers.Exp3,
}
_GENERATORS: Mapping[str, Callable[..., Generator]] = {
    "listed": generators.Listed,
    "parameters": generators.Parameters,
    "sliding-difficulty": SlidingDifficulty,
}
_SCHEDULES: Mapping[str, Callable[..., Schedule]] = {
    "always-new": schedules.AlwaysNew,
    "replay": schedules.Replay,
    "fill-then-replay": schedules.FillThenReplay,
    "screen-then-train": schedules.ScreenThenTrain,
    "rounds": schedules.Rounds,
}
_PARTS = ("schedule", "scorer", "sampler", "memory")


class UnknownName(ValueError):
    """A preset, part or option that does not exist; the message lists those that do."""


def names() -> tuple[str, ...]:
    """Return the presets' names, sorted."""
    folder = resources.files("spade_gym.curriculum.presets")
    return tuple(sorted(item.name[:-5] for item in folder.iterdir() if item.name.endswith(".toml")))


def table(name: str) -> dict[str, Any]:
    """Return a preset's table, to be read or changed.

    Raises:
        UnknownName: There is no such preset.
    """
    if name not in names():
        raise _unknown("preset", name, names())
    return tomllib.loads((resources.files("spade_gym.curriculum.presets") / f"{name}.toml").read_text("utf-8"))


def make(
    name: str = DEFAULT,
    *,
    generator: Generator | Mapping[str, Any] | None = None,
    gates: Iterable[Gate] = (),
    seed: int = 0,
    return_range: tuple[float, float] = (0.0, 1.0),
    group_size: int = 1,
    **overrides: Mapping[str, Any],
) -> Curriculum:
    """Make the curriculum of a preset.

    Args:
        name: One of ``names()``.
        generator: Where tasks come from, or a table with its ``name`` (built in, or a third party's) and options;
            ``None`` when all are added by hand.
        gates: Judge tasks before they enter.
        seed: Seeds everything that is drawn.
        return_range: Declared range of returns.
        group_size: Seeds of every ticket: one, or as many as a GRPO group has.
        overrides: Changed options by part, for example ``sampler={"temperature": 0.1}``; a ``name`` replaces the
            part.

    Raises:
        UnknownName: A preset, part or option does not exist.
        ValueError: An option is out of range, or the preset needs another generator.
    """
    return compose(
        table(name),
        generator=generator,
        gates=gates,
        seed=seed,
        return_range=return_range,
        group_size=group_size,
        **overrides,
    )


def compose(
    settings: Mapping[str, Any],
    *,
    generator: Generator | Mapping[str, Any] | None = None,
    gates: Iterable[Gate] = (),
    seed: int = 0,
    return_range: tuple[float, float] = (0.0, 1.0),
    group_size: int = 1,
    **overrides: Mapping[str, Any],
) -> Curriculum:
    """Make a curriculum from a table like those of the presets.

    Raises:
        UnknownName: A part or option does not exist.
        ValueError: An option is out of range, or the table demands another generator.
    """
    parts = {name: copy.deepcopy(dict(settings.get(name, {}))) for name in _PARTS}
    for name in [*overrides, *(key for key in settings if key not in ("source", "generator"))]:
        if name not in _PARTS:
            raise _unknown("part of a curriculum", name, _PARTS)
    for name, changes in overrides.items():
        if not isinstance(changes, Mapping):
            raise UnknownName(f"{name} must be a table of options, for example {{'name': …}}, got {changes!r}")
        parts[name] = dict(changes) if "name" in changes else {**parts[name], **changes}
    if isinstance(generator, Mapping):
        generator = cast(Generator, _part("generator", dict(generator), _GENERATORS, "generators"))
    if settings.get("generator") == "sliding-difficulty" and not isinstance(generator, SlidingDifficulty):
        raise ValueError(f"this curriculum needs a SlidingDifficulty as its generator, got {type(generator).__name__}")
    return Curriculum(
        memory=_build("memory", lambda: Memory, "memory", parts["memory"]),
        scorer=_scorer(parts["scorer"]),
        schedule=_part("schedule", parts["schedule"], _SCHEDULES, None),
        sampler=_part("sampler", parts["sampler"], _SAMPLERS, "samplers"),
        generator=generator,
        gates=tuple(gates),
        seed=seed,
        return_range=return_range,
        group_size=group_size,
    )


def _part(kind: str, options: dict[str, Any], built_in: Mapping[str, Callable[..., Any]], group: str | None) -> Any:
    name = options.pop("name", None)
    return _build(kind, lambda: _find(kind, name, built_in, group), str(name), options)


def _scorer(options: dict[str, Any]) -> Scorer:
    name = options.pop("name", None)
    function = _find("scorer", name, BUILT_IN, "scorers")
    try:
        return bound(function, options, name=str(name))
    except TypeError as error:
        raise UnknownName(str(error)) from error


def _find(kind: str, name: object, built_in: Mapping[str, Callable[..., Any]], group: str | None) -> Callable[..., Any]:
    if isinstance(name, str) and name in built_in:
        return built_in[name]
    third_party = tuple(plugin.name for plugin in plugins.available(group)) if group else ()
    if group and name in third_party:
        return cast(Callable[..., Any], plugins.load(group, str(name)))
    raise _unknown(kind, str(name), (*built_in, *third_party))


def _build(kind: str, find: Callable[[], Callable[..., Any]], name: str, options: Mapping[str, Any]) -> Any:
    make_part = find()
    known = _options(make_part)
    for key in options:
        if known is not None and key not in known:
            raise _unknown(f"option of the {kind} {name!r}", key, known)
    return make_part(**options)


def _options(make_part: Callable[..., Any]) -> tuple[str, ...] | None:
    if dataclasses.is_dataclass(make_part):
        return tuple(item.name for item in dataclasses.fields(make_part) if not item.name.startswith("_"))
    return ("capacity", "eviction", "plays_kept") if make_part is Memory else None


def _unknown(kind: str, name: str, known: Iterable[str]) -> UnknownName:
    known = sorted(known)
    near = difflib.get_close_matches(name.lower(), known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return UnknownName(f"unknown {kind} {name!r}{hint} Known: {', '.join(known)}")
