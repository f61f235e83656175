"""The layout of a run's database, and whether a file is one that this version may open."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from spade_gym.curriculum.writer_lock import StoreError

FILE_NAME = "run.db"
SCHEMA_VERSION = 1
#: Tables of the journal, in the order in which the last of them was written of an entry.
TABLES = ("tasks", "tickets", "outcomes", "additions")

#: Written into the database. The first stores had the number of self-play runs; those are told apart by their tables.
APPLICATION_ID = 0x53504355  # "SPCU"
_SELF_PLAY_ID = 0x53504144  # ``spade_gym.selfplay.run_schema``, which this layer may not import
_MAGIC = b"SQLite format 3\x00"
_SCHEMA = """
CREATE TABLE tasks (
    id TEXT PRIMARY KEY, kind TEXT NOT NULL, value TEXT NOT NULL, skill TEXT NOT NULL, parent TEXT NOT NULL,
    mutation TEXT NOT NULL, hint TEXT NOT NULL, setting TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE tickets (
    n INTEGER PRIMARY KEY, id INTEGER, task TEXT, seeds TEXT, arm TEXT, train INTEGER, actor TEXT NOT NULL
);
CREATE TABLE outcomes (
    n INTEGER PRIMARY KEY, ticket INTEGER NOT NULL, seed INTEGER NOT NULL, total REAL NOT NULL, won INTEGER NOT NULL,
    length INTEGER NOT NULL, status TEXT NOT NULL, policy_version INTEGER NOT NULL, value REAL,
    receipt TEXT NOT NULL
);
CREATE TABLE additions (n INTEGER PRIMARY KEY, task TEXT NOT NULL, reason TEXT);
CREATE TABLE snapshots (n INTEGER PRIMARY KEY, settings TEXT NOT NULL, state BLOB NOT NULL);
CREATE TABLE tail (n INTEGER PRIMARY KEY, rows BLOB NOT NULL);
"""


def create(database: sqlite3.Connection) -> None:
    """Make the tables in a new database; in one that has them do nothing."""
    if not _version(database):
        database.executescript(
            f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA application_id={APPLICATION_ID};"
            f"PRAGMA user_version={SCHEMA_VERSION}; COMMIT;"
        )


def check_header(path: Path) -> None:
    """Refuse what is no SQLite database before SQLite opens it.

    Raises:
        StoreError: It is none, or cannot be read.
    """
    if not path.exists():
        return
    try:
        with path.open("rb") as file:
            head = file.read(len(_MAGIC))
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error}") from error
    if head and head != _MAGIC:
        raise StoreError(damaged(path, f"it is no SQLite database (it begins with {head!r})"))


def check_contents(database: sqlite3.Connection, path: Path) -> None:
    """Refuse a database of a self-play run, of another program, of a newer version, or with damaged pages.

    Raises:
        StoreError: It is one of these.
    """
    application = database.execute("PRAGMA application_id").fetchone()[0]
    version = _version(database)
    tables = database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if not application and not version and not tables:
        return
    if application == _SELF_PLAY_ID and not _has_tail(database):
        raise StoreError(
            f"{path} is the database of a self-play run, not of a curriculum; it was left as it is. Look at it with "
            f"`spade-gym run show {path.parent}`, or use another folder"
        )
    if application not in (APPLICATION_ID, _SELF_PLAY_ID):
        raise StoreError(f"{path} is a database of another program; it was left as it is. Use another folder")
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{path} was written by a newer spade-gym (schema version {version}; this one knows up to "
            f"{SCHEMA_VERSION}); it was left as it is. Update spade-gym, or use another folder"
        )
    found = [row[0] for row in database.execute("PRAGMA quick_check(3)")]
    if found != ["ok"]:
        raise StoreError(damaged(path, "; ".join(found)))


def check_begun(database: sqlite3.Connection, path: Path) -> None:
    """Refuse to read a database whose tables were not made yet, as when its writer has only just started.

    Raises:
        StoreError: It has none.
    """
    if not _version(database):
        raise StoreError(f"{path} holds nothing yet: a run that writes it has only just started, or never came to it")


def _has_tail(database: sqlite3.Connection) -> bool:
    return database.execute("SELECT 1 FROM sqlite_master WHERE name = 'tail'").fetchone() is not None


def _version(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA user_version").fetchone()[0])


def damaged(path: Path, problem: str) -> str:
    """Return the message for a database that cannot be used."""
    return (
        f"{path} is damaged: {problem}. It was left as it is: restore it from a copy (with {path.name}-wal, if there "
        "is one), or start a new run in another folder"
    )
