"""The tables of a self-play run's ``run.db``.

Columns that end ``_at``, ``_seconds`` or ``_path`` differ between two runs of the same recipe; with recorded or local
models all others are equal. Rows are found by their own keys, so their order tells nothing.
"""

from __future__ import annotations

import contextlib
import functools
import sqlite3
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

#: Written into the database; another number is refused.
VERSION = 1
APPLICATION = 0x53504144  # "SPAD"

TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE replies (
    key TEXT PRIMARY KEY, epoch INTEGER, environment INTEGER, attempt INTEGER, setting TEXT, skill TEXT,
    difficulty TEXT, document TEXT, domain TEXT, variant TEXT, is_repair INTEGER, num_examples INTEGER, seed INTEGER,
    prompt TEXT, text TEXT, error TEXT, hint TEXT, origin TEXT, digest TEXT, manifest TEXT, completion BLOB,
    prompt_ids BLOB, prompt_tokens INTEGER, completion_tokens INTEGER, policy_version INTEGER, model_seconds REAL,
    written_at REAL
) WITHOUT ROWID;
CREATE TABLE attempts (
    key TEXT PRIMARY KEY, outcome TEXT, digest TEXT, manifest TEXT, findings TEXT, check_seconds REAL
) WITHOUT ROWID;
CREATE TABLE programs (digest TEXT PRIMARY KEY, name TEXT, setting TEXT, skill TEXT, source TEXT) WITHOUT ROWID;
CREATE TABLE hints (
    digest TEXT PRIMARY KEY, text TEXT, reason TEXT, note TEXT, tries TEXT, prompt_tokens INTEGER,
    completion_tokens INTEGER, hint_seconds REAL
) WITHOUT ROWID;
CREATE TABLE pools (
    epoch INTEGER, environment INTEGER, digest TEXT, skill TEXT, born INTEGER, request TEXT,
    PRIMARY KEY (epoch, environment)
) WITHOUT ROWID;
CREATE TABLE plays (
    key TEXT PRIMARY KEY, rollout INTEGER, environment INTEGER, digest TEXT, seed INTEGER, arm TEXT, total REAL,
    won INTEGER, length INTEGER, status TEXT, fault TEXT, ended TEXT, policy_version INTEGER, prompt_tokens INTEGER,
    completion_tokens INTEGER, transcript BLOB, samples BLOB, play_seconds REAL, ended_at REAL
) WITHOUT ROWID;
CREATE INDEX plays_by_rollout ON plays (rollout, environment);
CREATE TABLE scores (
    epoch INTEGER, environment INTEGER, digest TEXT, skill TEXT, num_plain INTEGER, num_hinted INTEGER,
    num_dropped INTEGER, win_rate REAL, win_low REAL, win_high REAL, mean_return REAL, constant_return REAL,
    regret REAL,
    regret_error REAL, num_pairs INTEGER, reward REAL, reason TEXT, advantage REAL,
    PRIMARY KEY (epoch, environment)
) WITHOUT ROWID;
CREATE TABLE memory (
    epoch INTEGER, position INTEGER, task TEXT, digest TEXT, skill TEXT, num_plays INTEGER, win_rate REAL, regret REAL,
    PRIMARY KEY (epoch, position)
) WITHOUT ROWID;
CREATE TABLE updates (
    rollout INTEGER PRIMARY KEY, num_agent INTEGER, num_designer INTEGER, metrics TEXT,
    update_seconds REAL, updated_at REAL
) WITHOUT ROWID;
CREATE TABLE checkpoints (rollout INTEGER PRIMARY KEY, folder_path TEXT, saved_at REAL) WITHOUT ROWID;
CREATE TABLE notes (
    rollout INTEGER, position INTEGER, kind TEXT, message TEXT, PRIMARY KEY (rollout, position)
) WITHOUT ROWID;
"""


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        name: Its name; columns of one name are of one kind in every table.
        kind: Of its values in Python.
        key_place: Its place in the primary key, from 1; 0 for none.
    """

    name: str
    kind: type[Any] | tuple[type[Any], ...]
    key_place: int


_KINDS: Mapping[str, type[Any] | tuple[type[Any], ...]] = MappingProxyType(
    {"TEXT": str, "INTEGER": int, "REAL": (float, int), "BLOB": bytes}
)


def contents(database: sqlite3.Connection) -> frozenset[tuple[Any, ...]]:
    """Return what a database holds besides rows: kind, name, table and SQL text of each table, index, trigger, view."""
    return frozenset(database.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"))


@functools.cache
def tables() -> Mapping[str, tuple[Column, ...]]:
    """Return the columns of each table."""
    with contextlib.closing(sqlite3.connect(":memory:")) as model:
        model.executescript(TABLES)
        names = [name for (name,) in model.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        return MappingProxyType({
            name: tuple(
                Column(column, _KINDS[kind], place)
                for column, kind, place in model.execute("SELECT name, type, pk FROM pragma_table_info(?)", (name,))
            )
            for name in names
        })  # fmt: skip


@functools.cache
def kinds() -> Mapping[str, type[Any] | tuple[type[Any], ...]]:
    """Return the kind of the values of each column, by its name."""
    return MappingProxyType({column.name: column.kind for columns in tables().values() for column in columns})
