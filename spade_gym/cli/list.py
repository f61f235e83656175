"""``spade-gym list``: which programs there are."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from spade_gym.cli.check_report import dump
from spade_gym.cli.terminal import table, width
from spade_gym.cli.which_program import Found, add_pool_argument, pools
from spade_gym.errors import SpadeError
from spade_gym.types import GAME_SKILLS, SETTINGS, TOOL_SKILLS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``list``."""
    add_filter_arguments(parser)
    add_pool_argument(parser)


def add_filter_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--skill``, ``--setting`` and ``--json``."""
    parser.add_argument("--skill", help="only programs of this skill (a part of its name is enough)")
    parser.add_argument("--setting", choices=SETTINGS, help="only programs of this setting")
    parser.add_argument("--json", action="store_true", help="print a list with one object a program")


def run(args: argparse.Namespace) -> int:
    """Print the programs, in the order of their skills and names."""
    print_programs(args, args.pool)
    return 0


def print_programs(args: argparse.Namespace, folder: Path | None) -> None:
    """Print the programs of a pool, or of the registries, that pass the filters."""
    found = [Found(program, registry) for registry, pool in pools(folder).items() for program in pool]
    chosen = [item for item in found if _wanted(item, args.skill, args.setting)]
    if args.skill and not any(_wanted(item, args.skill, None) for item in found):
        skills = ", ".join(GAME_SKILLS + TOOL_SKILLS)
        raise SpadeError(f"no program has a skill like {args.skill!r}; the usual skills are {skills}")
    chosen.sort(key=lambda item: (item.program.setting == "tool_use", item.program.manifest.skill, item.program.name))
    if args.json:
        print(dump([summary(item) for item in chosen]))
        return
    rows = [_row(item) for item in chosen]
    print(table(rows, header=("name", "setting", "skill", "level", "turns", "description"), columns=width()))
    print(f"\n{len(chosen)} of {len(found)} programs; spade-gym show NAME tells more")


def summary(found: Found) -> dict[str, Any]:
    """Return what a list says about a program, as a JSON object."""
    manifest = found.program.manifest
    return {
        "name": manifest.name,
        "id": found.gym_id,
        "registry": found.registry,
        "setting": manifest.setting,
        "skill": manifest.skill,
        "difficulty": manifest.difficulty,
        "max_turns": manifest.max_turns,
        "description": manifest.description,
        "has_hint": bool(manifest.hint),
        "digest": found.program.digest,
    }


def _wanted(found: Found, skill: str | None, setting: str | None) -> bool:
    manifest = found.program.manifest
    if skill is not None and skill.casefold() not in manifest.skill.casefold():
        return False
    return setting is None or manifest.setting == setting


def _row(found: Found) -> tuple[str, ...]:
    manifest = found.program.manifest
    turns = "" if manifest.max_turns is None else str(manifest.max_turns)
    return (manifest.name, manifest.setting, manifest.skill, manifest.difficulty, turns, manifest.description)
