"""Which parts another installed distribution adds: entry points, listed and loaded by name.

A distribution offers a part by declaring it in its own ``pyproject.toml``::

    [project.entry-points."spade_gym.scorers"]
    surprise = "my_package.scorers:surprise"

Loading a plugin imports and so runs its distribution's code in this process: install only what you trust.
"""

from __future__ import annotations

import difflib
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NamedTuple

from spade_gym.errors import SpadeError

#: The kinds of parts that can be added; the entry-point group is ``spade_gym.<kind>``.
GROUPS = (
    "learners", "trainers", "designers", "generators", "scorers", "samplers", "models", "registries",
    "recipes", "prompts", "commands",
)  # fmt: skip

_PREFIX = "spade_gym."


class PluginError(SpadeError):
    """A plugin that is unknown, offered twice under one name, or cannot be imported."""


class Plugin(NamedTuple):
    """One part that an installed distribution offers.

    Attributes:
        group: The kind of part, one of :data:`GROUPS`.
        name: The name under which it is loaded.
        target: What it points at, ``module`` or ``module:attribute``.
        distribution: The distribution that declares it, with its version.
    """

    group: str
    name: str
    target: str
    distribution: str


def available(group: str) -> tuple[Plugin, ...]:
    """List the plugins of a group without importing any of them.

    Args:
        group: One of :data:`GROUPS`, with or without the prefix ``spade_gym.``.

    Returns:
        Plugins sorted by name, then distribution. A name that two distributions offer occurs twice here and
        is refused by :func:`load`.

    Raises:
        PluginError: There is no such group.
    """
    kind = _kind(group)
    return tuple(sorted(_describe(kind, point) for point in entry_points(group=_PREFIX + kind)))


def load(group: str, name: str) -> Any:
    """Import one plugin and return the object that its entry point names.

    Args:
        group: One of :data:`GROUPS`, with or without the prefix ``spade_gym.``.
        name: The plugin's name.

    Raises:
        PluginError: No distribution offers the name, two do, or its import failed.
    """
    kind = _kind(group)
    points = [point for point in entry_points(group=_PREFIX + kind) if point.name == name]
    if not points:
        raise PluginError(_unknown(kind, name))
    if len(points) > 1:
        offers = " and ".join(f"{_distribution(point)} ({point.value})" for point in sorted(points))
        raise PluginError(f"{_PREFIX}{kind} {name!r} is offered twice, by {offers}; uninstall one of them")
    (point,) = points
    try:
        return point.load()
    except Exception as error:  # a plugin's module may raise anything while it is imported
        raise PluginError(
            f"the plugin {name!r} of {_PREFIX}{kind} (entry point {point.value!r} of the distribution "
            f"{_distribution(point)}) cannot be imported: {type(error).__name__}: {error}"
        ) from error


def _kind(group: str) -> str:
    kind = group.removeprefix(_PREFIX)
    if kind not in GROUPS:
        raise PluginError(f"there is no plugin group {group!r}; the groups are {', '.join(GROUPS)}")
    return kind


def _describe(kind: str, point: EntryPoint) -> Plugin:
    return Plugin(kind, point.name, point.value, _distribution(point))


def _distribution(point: EntryPoint) -> str:
    if point.dist is None:
        return "an unknown distribution"
    return f"{point.dist.name} {point.dist.version}"


def _unknown(kind: str, name: str) -> str:
    known = sorted({plugin.name for plugin in available(kind)})
    if not known:
        return f"no plugin {name!r}: no installed distribution offers anything in the group {_PREFIX}{kind}"
    near = difflib.get_close_matches(name, known, n=1)
    ask = f"; did you mean {near[0]!r}?" if near else ""
    return f"no plugin {name!r} in {_PREFIX}{kind}; the installed ones are {', '.join(known)}{ask}"
