"""``spade-gym show``: everything that is known about one program."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path

from spade_gym.cli.check_report import dump, plain
from spade_gym.cli.list import summary
from spade_gym.cli.terminal import bold, visible, width, wrap
from spade_gym.cli.which_program import Found, add_pool_argument, find


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``show``."""
    parser.add_argument("name", metavar="NAME", help="a name, a Gymnasium id, 8 or more digits of a digest, or a file")
    add_detail_arguments(parser)
    add_pool_argument(parser)


def add_detail_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--hint``, ``--source`` and ``--json``."""
    parser.add_argument("--hint", action="store_true", help="show the hint (it spoils the game)")
    parser.add_argument("--source", action="store_true", help="show the source (it spoils the game)")
    parser.add_argument("--json", action="store_true", help="print one object; without hint and source unless asked")


def run(args: argparse.Namespace) -> int:
    """Print one program."""
    return print_program(args, args.pool)


def print_program(args: argparse.Namespace, folder: Path | None) -> int:
    """Print the program ``args.name`` of a pool, or of the registries."""
    found = find(args.name, folder)
    if args.json:
        print(dump(_object(found, hint=args.hint, source=args.source)))
        return 0
    print(describe(found, hint=args.hint, columns=width()))
    if args.source:
        print("\n" + bold("source") + "\n" + visible(found.program.source))
    return 0


def describe(found: Found, *, hint: bool, columns: int) -> str:
    """Lay out what the manifest says, harmless to a terminal.

    Args:
        found: The program.
        hint: Show the hint itself, not only that there is one.
        columns: Length of the longest line.
    """
    program, manifest = found.program, found.program.manifest
    turns = "decided by the program" if manifest.max_turns is None else f"at most {manifest.max_turns}"
    contract = f"turns {turns}; return: {'the last reward' if manifest.reward == 'last' else 'the sum of rewards'}"
    fields = [
        ("description", manifest.description),
        ("id", found.gym_id),
        ("digest", program.digest),
        ("setting", manifest.setting),
        ("skill", manifest.skill),
        ("difficulty", manifest.difficulty),
        ("class", manifest.class_name),
        ("contract", contract),
        ("arguments", json.dumps(plain(manifest.kwargs)) if manifest.kwargs else ""),
        ("repairs", ", ".join(manifest.repairs)),
        ("adapters", ", ".join(manifest.adapters)),
        ("hint", _hint(manifest.hint, hint)),
        ("commands", _commands(found)),
        ("origin", "\n".join(f"{key}: {value}" for key, value in sorted(manifest.origin.items()))),
    ]
    lines = [bold(visible(manifest.name))]
    for label, text in fields:
        if text:
            lines.append(_field(label, text, columns))
    return "\n".join(lines)


def _field(label: str, text: str, columns: int) -> str:
    block = wrap(text, columns=columns, indent=" " * 14)
    return f"{label:<12}  {block.lstrip()}"


def _hint(text: str, shown: bool) -> str:
    if not text:
        return "none"
    return text if shown else "there is one; --hint shows it"


def _commands(found: Found) -> str:
    if found.program.setting == "tool_use":
        return "tool calls; the tools are announced when it is played"
    templates = found.program.manifest.commands
    return "\n".join(templates) if templates else "announced when it is played"


def _object(found: Found, *, hint: bool, source: bool) -> dict[str, object]:
    manifest = dataclasses.asdict(found.program.manifest)
    if not hint:
        del manifest["hint"]
    record: dict[str, object] = {**plain(manifest), **summary(found)}
    if source:
        record["source"] = found.program.source
    return record
