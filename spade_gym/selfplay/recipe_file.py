"""Where recipes lie, and how one is read: by name or path, over its base, with settings from the command line."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any

from spade_gym import plugins
from spade_gym.errors import PoolError
from spade_gym.plain_file import read_text, shown
from spade_gym.selfplay.recipe import Recipe
from spade_gym.selfplay.settings_table import RecipeError, read_table

_MAX_BYTES = 1 << 18
#: Most recipes on top of each other.
_MAX_BASES = 16
#: Most parts of the name of a setting.
_MAX_PARTS = 32
#: Settings in which "none" is a word and not an absent value.
_NONE_IS_A_WORD = ("corpus",)


def names() -> tuple[str, ...]:
    """Return the recipes' names, sorted: those of this distribution, and of others that offer some."""
    return tuple(sorted(_shipped()))


def read_recipe(name: str, overrides: Iterable[str] = ()) -> Recipe:
    """Read a recipe by its name, or a TOML file by its path.

    A recipe may begin with ``base = "NAME"``: what it does not say is said there. The path of a base is taken from the
    folder of the file that names it.

    Args:
        name: A shipped recipe's name, or a path that ends in ``.toml``.
        overrides: ``key=value`` texts such as ``cycle.rollouts=8``; values are TOML, bare words are texts.

    Raises:
        RecipeError: It is unknown, or says something that it must not.
    """
    table = _merged(name, _table(name))
    for text in overrides:
        override(table, text)
    return read_table(Recipe, table, f"recipe {name}")


def _shipped() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for plugin in plugins.available("recipes"):
        package = plugin.target.partition(":")[0]
        for item in resources.files(package).iterdir():
            if item.name.endswith(".toml"):
                found[item.name[:-5]] = item
    return found


def _table(name: str) -> dict[str, Any]:
    shipped = _shipped()
    if name in shipped:
        text = shipped[name].read_text("utf-8")
    elif name.endswith(".toml"):
        try:
            text = read_text(Path(name), max_bytes=_MAX_BYTES)
        except PoolError as error:
            raise RecipeError(f"the recipe {error}") from error
    else:
        near = difflib.get_close_matches(name, shipped, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise RecipeError(f"no recipe {shown(name)}{hint} There are {', '.join(sorted(shipped))}, or give a .toml file")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also numbers of too many digits, and nesting without end
        raise RecipeError(f"the recipe {name} is no valid TOML: {error}") from error


def _merged(name: str, table: dict[str, Any], seen: tuple[str, ...] = ()) -> dict[str, Any]:
    """Put a recipe over its base."""
    base = table.pop("base", None)
    if base is None:
        return table
    if not isinstance(base, str) or not base:
        raise RecipeError(f"the recipe {name} has the base {shown(base)}; it must name another recipe")
    if name.endswith(".toml") and base.endswith(".toml"):
        base = os.path.normpath(Path(name).parent / base)
    if base in (*seen, name):
        raise RecipeError(f"the recipe {name} has the base {base!r}; it must name another recipe, and no circle")
    if len(seen) >= _MAX_BASES:
        raise RecipeError(f"the recipe {seen[0]} stands on more than {_MAX_BASES} bases; put some of them together")
    below = _merged(base, _table(base), (*seen, name))
    for key, value in table.items():
        both = isinstance(value, dict) and isinstance(below.get(key), dict)
        below[key] = {**below[key], **value} if both else value
    return below


def override(table: dict[str, Any], text: str) -> None:
    """Put one ``key=value`` into a table; the key may lead into tables inside it: ``agent.max_turns=8``.

    Raises:
        RecipeError: It is no such text.
    """
    key, equals, value = text.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(re.fullmatch(r"[\w-]+", part) for part in parts):
        raise RecipeError(f"a setting is given as table.key=value, for example cycle.rollouts=8, got {shown(text)}")
    if len(parts) > _MAX_PARTS:
        raise RecipeError(f"{shown(text)} names a table in more than {_MAX_PARTS} tables; make it flatter")
    place: Any = table
    for part in parts[:-1]:
        place = place.setdefault(part, {})
        if not isinstance(place, dict):
            raise RecipeError(f"{shown(text)}: {part!r} is no table")
    if value.strip() == "none" and parts[-1] not in _NONE_IS_A_WORD:
        place[parts[-1]] = None
        return
    try:
        read = tomllib.loads(f"value = {value}")
    except tomllib.TOMLDecodeError:
        place[parts[-1]] = value.strip()
    except (ValueError, RecursionError) as error:
        raise RecipeError(f"{shown(text)}: {error}") from error
    else:
        if set(read) != {"value"}:
            raise RecipeError(f"{shown(text)} holds more than one setting; give each by itself")
        place[parts[-1]] = read["value"]
