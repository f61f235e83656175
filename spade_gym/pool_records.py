"""What a record of somebody else's pool says about a program: liberal in its keys, strict in its values.

Published pools describe each program by a JSON object (or a Parquet row) whose keys differ from one author to
the next. :func:`read_record` turns one into a :class:`Record`; whatever is not understood is kept as text in the
program's origin, so nothing is lost and nothing is believed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from spade_gym.errors import ManifestError, PoolError
from spade_gym.programs.program import Manifest, Program
from spade_gym.programs.reply import program_from_reply, program_from_source
from spade_gym.types import GAME_SKILLS, TOOL_SKILLS, Setting

FILE_KEYS = ("file", "filename", "file_name", "path", "filepath", "file_path", "game_file", "env_file")
NAME_KEYS = ("name", "env_name", "game_name", "title", "class_name", "env_class", "class")
SETTING_KEYS = ("setting", "type", "env_type", "game_type", "mode", "kind")
SKILL_KEYS = ("skill", "cognitive_skill", "skill_name", "category", "ability")
HINT_KEYS = ("hint", "privileged_hint", "hint_text")
REWARD_KEYS = ("reward_rule", "reward", "return_rule", "score_rule")
SOURCE_KEYS = ("code", "source", "program", "env_code", "source_code", "game_code", "python")
REPLY_KEYS = ("reply", "response", "completion", "raw_reply", "messages", "output", "text", "content")
CHECKSUM_KEYS = ("sha256", "checksum", "file_sha256")

_ORIGIN_ITEMS, _ORIGIN_CHARS = 40, 500
_SETTINGS: dict[str, Setting] = {
    "single": "single_turn",
    "single turn": "single_turn",
    "singleturn": "single_turn",
    "game single": "single_turn",
    "multi": "multi_turn",
    "multi turn": "multi_turn",
    "multiturn": "multi_turn",
    "game multi": "multi_turn",
    "tool": "tool_use",
    "tools": "tool_use",
    "tool use": "tool_use",
    "tooluse": "tool_use",
}


class Record(NamedTuple):
    """One program as a published record describes it.

    Attributes:
        file: File name inside the pool, or ``""``.
        name: A valid program name, or ``None`` when the source must tell.
        setting: The setting, or ``None`` when the source must tell.
        skill: The skill, in this package's spelling where it is one of the known ones.
        source: Program text, or ``""``.
        reply: A raw model reply that holds the program, or ``""``.
        checksum: sha256 of the file, or ``""``.
        manifest: This package's own manifest, when the record was exported by it.
        changes: Further fields of the manifest.
        origin: Everything else, as text.
    """

    file: str
    name: str | None
    setting: Setting | None
    skill: str
    source: str
    reply: str
    checksum: str
    manifest: Manifest | None
    changes: dict[str, Any]
    origin: dict[str, str]


def read_record(row: Mapping[str, Any], *, where: str) -> Record:
    """Read one record.

    Args:
        row: The JSON object or table row.
        where: What to call it in errors and in the origin.

    Raises:
        PoolError: The record's own manifest is malformed.
    """
    if "spade_gym" in row:
        return _own_record(row, where)
    used: set[str] = set()
    file = _text(row, FILE_KEYS, used)
    names = [str(row[key]) for key in NAME_KEYS if isinstance(row.get(key), str)]
    source, reply = _program_text(row, SOURCE_KEYS), _program_text(row, REPLY_KEYS)
    if source.lstrip().startswith(("```", "~~~", "<think>")):
        source, reply = "", source
    return Record(
        file=file,
        name=next((name for name in map(program_name, names) if name), None),
        setting=_setting(row, used),
        skill=_skill(_text(row, SKILL_KEYS, used)) or _skill_in_file(file),
        source=source,
        reply="" if source else reply,
        checksum=_text(row, CHECKSUM_KEYS, used).lower(),
        manifest=None,
        changes=_changes(row, used),
        origin={"kind": "imported", "record": where, **_rest(row, used)},
    )


def build_program(record: Record) -> Program:
    """Turn a record with a source or a reply into a program.

    Raises:
        PoolError: It has neither.
        ReplyError: No program can be read from it.
        ManifestError: A field has a value that no manifest takes.
    """
    if record.manifest is not None:
        return Program(source=record.source, manifest=record.manifest)
    if not record.source and not record.reply:
        keys = ", ".join(SOURCE_KEYS + REPLY_KEYS)
        raise PoolError(f"the record holds no program text; it is looked for under {keys}")
    read = program_from_source if record.source else program_from_reply
    program = read(
        record.source or record.reply,
        name=record.name,
        setting=record.setting,
        skill=record.skill,
        origin=record.origin,
    )
    return program.with_manifest(**record.changes) if record.changes else program


def program_name(text: str) -> str | None:
    """Make a program name of a title: ``"spade/odd-coin env-v0"`` gives ``OddCoin``; ``None`` when nothing is left."""
    text = re.sub(r"-v\d+$", "", text.strip().rpartition("/")[2])
    words = re.findall(r"[A-Za-z0-9]+", text.removesuffix(".py"))
    name = "".join(word[0].upper() + word[1:] for word in words)
    name = re.sub(r"(?<=.)(Env|Environment)$", "", name)[:64]
    return name if re.match(r"[A-Za-z]", name) else None


def _own_record(row: Mapping[str, Any], where: str) -> Record:
    table = row["spade_gym"]
    if not isinstance(table, dict):
        raise PoolError(f"{where}: the field 'spade_gym' must be an object, got {table!r:.80}")
    table = {key: value for key, value in table.items() if value is not None}
    try:
        manifest = Manifest(**table)
    except (TypeError, ManifestError) as error:
        raise PoolError(f"{where}: the field 'spade_gym' is no manifest: {error}") from error
    used: set[str] = set()
    return Record(
        file=_text(row, FILE_KEYS, used),
        name=manifest.name,
        setting=manifest.setting,
        skill=manifest.skill,
        source=_program_text(row, SOURCE_KEYS),
        reply="",
        checksum=_text(row, ("digest", *CHECKSUM_KEYS), used).lower(),
        manifest=manifest,
        changes={},
        origin={},
    )


def _text(row: Mapping[str, Any], keys: tuple[str, ...], used: set[str]) -> str:
    """Return the first non-empty text under one of the keys and remember the key."""
    for key in keys:
        value = row.get(key)
        if isinstance(value, str) and value.strip():
            used.add(key)
            return value
    return ""


def _program_text(row: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    """Return the first text of several lines under one of the keys (a chat gives its last message).

    One line is no program: a column named ``source`` often says where a program came from.
    """
    for key in keys:
        value = row.get(key)
        if isinstance(value, list) and value and isinstance(value[-1], dict):
            value = value[-1].get("content")
        if isinstance(value, str) and "\n" in value.strip():
            return value
    return ""


def _words(text: str) -> str:
    return re.sub(r"[\s_-]+", " ", text).strip().casefold()


def _setting(row: Mapping[str, Any], used: set[str]) -> Setting | None:
    for key in SETTING_KEYS:
        value = row.get(key)
        if isinstance(value, str) and _words(value) in _SETTINGS:
            used.add(key)
            return _SETTINGS[_words(value)]
    return None


def _skill(text: str) -> str:
    known = {_words(skill): skill for skill in GAME_SKILLS + TOOL_SKILLS}
    return known.get(_words(text), text[:_ORIGIN_CHARS])


def _skill_in_file(file: str) -> str:
    """Read the skill from a released file name, ``game_00012_003_logical_deduction.py``."""
    match = re.search(r"game_\d+_\d+_([A-Za-z_-]+)\.py$", file)
    known = {_words(skill): skill for skill in GAME_SKILLS + TOOL_SKILLS}
    return known.get(_words(match[1]), "") if match else ""


def _changes(row: Mapping[str, Any], used: set[str]) -> dict[str, Any]:
    """Collect the fields that only the record knows: difficulty, hint, turn limit, reward rule and the like."""
    changes: dict[str, Any] = {}
    difficulty = _text(row, ("difficulty", "level"), used).strip().lower()
    description, hint = _text(row, ("description", "summary"), used), _text(row, HINT_KEYS, used)
    if difficulty in ("easy", "medium", "hard"):
        changes["difficulty"] = difficulty
    if description:
        changes["description"] = " ".join(description.split())[:_ORIGIN_CHARS]
    if hint:
        changes["hint"] = hint
    turns = row.get("max_turns")
    if isinstance(turns, int) and not isinstance(turns, bool) and turns > 0:
        changes["max_turns"] = turns
    if _words(_text(row, REWARD_KEYS, used)) in ("last", "last step", "last reward", "final"):
        changes["reward"] = "last"
    kwargs = row.get("kwargs", row.get("env_kwargs"))
    if isinstance(kwargs, dict) and kwargs:
        changes["kwargs"] = kwargs
    commands = row.get("commands")
    if isinstance(commands, list) and commands and all(isinstance(item, str) for item in commands):
        changes["commands"] = tuple(commands)
    used.update(changes)
    used.update(("kwargs", "env_kwargs"))
    return changes


def _rest(row: Mapping[str, Any], used: set[str]) -> dict[str, str]:
    """Keep the scalars that nobody claimed (win rate, regret, model, …) as short texts."""
    bulky = {*SOURCE_KEYS, *REPLY_KEYS}
    rest: dict[str, str] = {}
    for key, value in row.items():
        if key in used or key in ("kind", "record") or len(rest) == _ORIGIN_ITEMS:
            continue
        if key in bulky and "\n" in str(value):
            continue
        if isinstance(value, str | int | float) and not isinstance(value, bool) and str(value):
            rest[str(key)[:64]] = str(value)[:_ORIGIN_CHARS]
    return rest
