"""``spade-gym list``: which programs there are."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spade_gym.cli.check_report import dump
from spade_gym.cli.terminal import bold, table, visible, width
from spade_gym.cli.which_program import Found, add_pool_argument, default_pool, pools
from spade_gym.errors import SpadeError
from spade_gym.types import GAME_SKILLS, SETTINGS, TOOL_SKILLS

if TYPE_CHECKING:
    from spade_gym.pool import Damage
    from spade_gym.programs.program import Program


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
    return print_programs(args, args.pool)


def print_programs(args: argparse.Namespace, folder: Path | None) -> int:
    """Print the programs of a pool, or of the registries, that pass the filters.

    Returns:
        The exit status: 1 when an entry is damaged, which is named on the error stream.
    """
    found: list[Found] = []
    damages: list[Damage] = []
    for registry, pool in pools(folder).items():
        survey = pool.survey()
        found.extend(Found(program, registry) for program in survey.programs)
        damages.extend(survey.damages)
    chosen = [item for item in found if _wanted(item, args.skill, args.setting)]
    if args.skill and not any(_wanted(item, args.skill, None) for item in found):
        skills = ", ".join(GAME_SKILLS + TOOL_SKILLS)
        raise SpadeError(f"no program has a skill like {args.skill!r}; the usual skills are {skills}")
    chosen = _sorted(chosen)
    if args.json:
        print(dump([summary(item) for item in chosen]))
    else:
        print("\n".join(_grouped(chosen, columns=width())))
        print(f"\n{len(chosen)} of {len(found)} programs; {_show_command(args, folder)} tells more")
    for damage in damages:
        print(f"spade-gym: damaged entry {visible(damage.entry)}: {visible(damage.problem)}", file=sys.stderr)
    return 1 if damages else 0


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


def _show_command(args: argparse.Namespace, folder: Path | None) -> str:
    """Return the command that shows a program of this list."""
    command = "spade-gym pool show NAME" if args.command == "pool" else "spade-gym show NAME"
    if folder is None or (args.command == "pool" and folder == default_pool()):
        return command
    return f"{command} --pool {visible(shlex.quote(str(folder)), newlines=False)}"


def _sorted(programs: list[Found]) -> list[Found]:
    """Sort by skill and name: skills of games first, then those of tool use, at last programs without one."""
    games = {item.program.manifest.skill for item in programs if item.program.setting != "tool_use"}

    def key(item: Found) -> tuple[bool, bool, str, str, str]:
        skill = item.program.manifest.skill
        return (not skill, skill not in games, skill, item.program.name, item.program.digest)

    return sorted(programs, key=key)


def _wanted(found: Found, skill: str | None, setting: str | None) -> bool:
    manifest = found.program.manifest
    if skill is not None and skill.casefold() not in manifest.skill.casefold():
        return False
    return setting is None or manifest.setting == setting


def _grouped(chosen: list[Found], *, columns: int) -> Iterator[str]:
    """Yield the lines of a table with a heading for each skill."""
    if not chosen:
        return
    digest = () if chosen[0].registry else ("digest",)
    titles = ("name", *digest, "setting", "level", "turns", "description")
    header, *lines = table([_row(item) for item in chosen], header=titles, columns=columns).split("\n")
    yield header
    skill = None
    for item, line in zip(chosen, lines, strict=True):
        if item.program.manifest.skill != skill:
            skill = item.program.manifest.skill
            yield "\n" + bold(visible(skill or "no skill stated", newlines=False))
        yield line


def _row(found: Found) -> tuple[str, ...]:
    manifest = found.program.manifest
    turns = "" if manifest.max_turns is None else str(manifest.max_turns)
    digest = () if found.registry else (found.program.digest[:12],)  # in a pool a name may be taken twice
    return (manifest.name, *digest, manifest.setting, manifest.difficulty, turns, _description(found.program))


def _description(program: Program) -> str:
    """Return what a program says about itself: its manifest's description, or how its class's docstring begins."""
    if program.manifest.description:
        return program.manifest.description
    head = re.search(rf"^class[ \t]+{program.manifest.class_name}\b[^\n]*:[^\n]*\n\s*", program.source, re.MULTILINE)
    docstring = re.compile(r"""[rR]?(?:\"{3}|'{3})\s*([^\n"']+)""").match(program.source, head.end()) if head else None
    if docstring:
        return docstring[1].strip()
    file = program.manifest.origin.get("file", "")
    return f"not described; read from {file}" if file else "not described"
