"""How a run's database is opened, and what is refused: a run's folder may come from a stranger, or be damaged.

A database file can hold more than rows. Triggers and views of a stranger would be obeyed when rows are written or
read, so nothing but the tables of :mod:`run_schema`, word for word, is accepted.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

from spade_gym.curriculum.writer_lock import StoreError
from spade_gym.plain_file import shown
from spade_gym.selfplay.run_schema import APPLICATION, TABLES, VERSION, contents

_LEFT = "It was left as it is; move it away, or use another folder"
#: What SQLite and we put beside the database.
_BESIDE = ("", "-wal", "-shm", "-journal", ".lock")


def check_files(path: Path) -> None:
    """Refuse a database, or a file that SQLite would use with it, that is a link, a pipe, a device or a folder.

    Raises:
        StoreError: One of them is no regular file, or cannot be looked at.
    """
    for end in _BESIDE:
        file = f"{path}{end}"
        try:
            mode = os.lstat(file).st_mode
        except FileNotFoundError:
            continue
        except OSError as error:
            raise StoreError(f"{file} cannot be used: {error.strerror}") from error
        if not stat.S_ISREG(mode):
            what = "a symbolic link, and links are not followed" if stat.S_ISLNK(mode) else "no regular file"
            raise StoreError(f"{file} is {what}. {_LEFT}")


def open_database(path: Path, *, read_only: bool) -> sqlite3.Connection:
    """Open the database of a run; a writer makes its tables where there is none.

    Args:
        path: The file, for which :func:`check_files` passed.
        read_only: For looking, also where the folder cannot be written to.

    Raises:
        StoreError: It is damaged, of another kind or newer, holds anything but a run's tables, or, for readers,
            nothing.
    """
    try:
        if not read_only:
            return _open(path, "mode=rwc", read_only=False)
        try:
            return _open(path, "mode=ro", read_only=True)
        except sqlite3.OperationalError as error:
            if not error.sqlite_errorname.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY")) or _has_wal(path):
                raise
            return _open(path, "immutable=1", read_only=True)  # a folder where SQLite cannot put its files beside it
    except sqlite3.Error as error:
        raise StoreError(f"{path} cannot be used: {error}. {_LEFT}") from error


def _has_wal(path: Path) -> bool:
    """Whether rows wait in the write-ahead log, which an immutable database would not show."""
    try:
        return os.path.getsize(f"{path}-wal") > 0
    except OSError:
        return False


def _open(path: Path, mode: str, *, read_only: bool) -> sqlite3.Connection:
    database = sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True, isolation_level=None, timeout=10.0)
    try:
        database.execute("PRAGMA trusted_schema=OFF")
        if read_only:
            database.text_factory = _text
        is_new = _check_contents(path, database)
        if read_only and is_new:
            raise StoreError(f"there is no run in {path.parent} yet: its {path.name} is empty")
        if not read_only:
            _prepare(database, is_new)
    except BaseException:
        database.close()
        raise
    return database


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _check_contents(path: Path, database: sqlite3.Connection) -> bool:
    """Return whether it is empty; refuse anything that is not exactly a run's tables."""
    application, version = (
        database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    )
    found = contents(database)
    if not found:
        return True
    if application != APPLICATION:
        raise StoreError(f"{path} is a database of another kind; start a run in another folder")
    if version > VERSION:
        raise StoreError(f"{path} is of version {version}, this software knows {VERSION}: update spade-gym")
    with contextlib.closing(sqlite3.connect(":memory:")) as model:
        _make_tables(model)
        wanted = contents(model)
    if odd := sorted(found ^ wanted, key=lambda item: (item[0] == "index", repr(item))):
        kind, name, *_ = odd[0]
        raise StoreError(
            f"{path} does not hold exactly the tables of a run of version {VERSION}: {kind:.10} "
            f"{shown(name)} is missing, added or changed. Only files that spade-gym wrote are used. {_LEFT}"
        )
    return False


def _prepare(database: sqlite3.Connection, is_new: bool) -> None:
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=NORMAL")
    if is_new:
        with transaction(database):
            _make_tables(database)
            database.execute(f"PRAGMA application_id={APPLICATION}")
            database.execute(f"PRAGMA user_version={VERSION}")


def _make_tables(database: sqlite3.Connection) -> None:
    for statement in TABLES.split(";\n"):
        database.execute(statement)


@contextlib.contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """All or nothing."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:  # a full disk has already ended it
            database.execute("ROLLBACK")
        raise
