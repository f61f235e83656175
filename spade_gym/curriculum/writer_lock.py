"""How a run's database has one writer at a time."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from spade_gym.errors import SpadeError


class StoreError(SpadeError):
    """A database that is damaged, of another kind, of a newer version, or in use; it was left as it is."""


def take_lock(path: Path) -> sqlite3.Connection:
    """Lock a file beside the database for as long as the connection lives.

    SQLite's own locks work on every system, between connections of one process too, end with the process, and are
    not inherited by a fork.

    Raises:
        StoreError: Somebody has the lock, or it cannot be made.
    """
    lock = sqlite3.connect(f"{path}.lock", isolation_level=None, timeout=0.0, check_same_thread=False)
    try:
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        lock.close()
        if error.sqlite_errorname != "SQLITE_BUSY":
            raise StoreError(f"{path}.lock cannot be made: {error}") from error
        raise StoreError(
            f"{path} is in use: another process (or another Store in this one) writes to it. End that run first, or "
            "look at it with Store(..., read_only=True)"
        ) from error
    return lock
