"""Where a curriculum's tasks, tickets and outcomes are kept: ``run.db``, an SQLite database in the run's folder.

What survives: a commit that has returned survives the death of the process in any way (``kill -9``), because the
operating system has the data. With ``durability="power"`` it is also on the disk (``synchronous=FULL``: one
``fsync`` a commit) and so survives a power failure or a crash of the operating system; with the default,
``"process"``, such a failure may take the last commits (since the last checkpoint of the log, about 4,000 pages), but
never damages what came before. Every commit is whole or absent.

A commit writes one row into the table ``tail``; every few hundred rows, and when the store is closed, these are moved
into the tables proper, in one transaction. Readers here see both; plain SQL sees all when the run has ended.

One process at a time writes, and holds a lock for it (``run.db.lock``), which the operating system drops when the
process ends, however it ends. Any number of processes may read meanwhile (``Store(path, read_only=True)``).
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Literal, get_args

from spade_gym.curriculum.journal import Entry, Snapshot, Told
from spade_gym.curriculum.store_schema import (
    FILE_NAME,
    TABLES,
    check_begun,
    check_contents,
    check_header,
    create,
    damaged,
)
from spade_gym.curriculum.store_tables import TASKS, Row, Tables, encode, rows_of
from spade_gym.curriculum.task import Task
from spade_gym.curriculum.writer_lock import StoreError, take_lock

__all__ = ["FILE_NAME", "Store", "StoreError"]

Durability = Literal["process", "power"]
_SNAPSHOTS_KEPT = 2
_CHECKPOINT_PAGES = 4000
_TASKS_REMEMBERED = 20_000
_TAIL_ROWS = 512
#: Longest wait for a lock of SQLite; readers hold one only for moments, but may be starved of processor time.
_BUSY_SECONDS = 60.0


class Store:
    """The database of one run.

    Args:
        path: The run's folder; it is made if missing (not for readers).
        read_only: Open beside a writer, for looking.
        durability: What a commit survives (see the module): ``process`` or ``power``.

    Attributes:
        closed: Whether it was closed: it is of no use then.

    Raises:
        StoreError: The database is damaged, of another kind, newer, or another process writes to it.
    """

    def __init__(self, path: Path | str, *, read_only: bool = False, durability: Durability = "process") -> None:
        if durability not in get_args(Durability):
            raise ValueError(f"durability must be one of {', '.join(get_args(Durability))}, got {durability!r}")
        self.folder = Path(path)
        self.path = self.folder / FILE_NAME
        self.read_only = read_only
        self.durability = durability
        self.closed = False
        self._process_id = os.getpid()
        self._written: set[str] = set()
        self._tail: list[Row] = []
        self._last = 0
        self._lock: sqlite3.Connection | None = None
        if read_only:
            if not self.path.exists():
                raise StoreError(f"there is no {FILE_NAME} in {self.folder}: is it a run's folder?")
        else:
            self._make_folder()
        check_header(self.path)
        if not read_only:
            self._lock = take_lock(self.path)
        try:
            self._database = self._connect()
            self._tables = Tables(self._database, self.path)
            if not read_only:
                self._last = self.last()
                self._tail = self._tables.tail()
        except StoreError:
            self._release()
            raise

    def _make_folder(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"the run's folder {self.folder} cannot be made: {error}") from error

    def _connect(self) -> sqlite3.Connection:
        database: sqlite3.Connection | None = None
        try:
            uri = f"{self.path.absolute().as_uri()}?mode={'ro' if self.read_only else 'rwc'}"
            database = sqlite3.connect(
                uri, uri=True, isolation_level=None, check_same_thread=False, timeout=_BUSY_SECONDS
            )
            check_contents(database, self.path)
            if self.read_only:
                check_begun(database, self.path)
            else:
                self._prepare(database)
        except sqlite3.DatabaseError as error:
            if database is not None:
                database.close()
            if isinstance(error, sqlite3.OperationalError):
                raise StoreError(f"{self.path} cannot be opened: {error}") from error
            raise StoreError(damaged(self.path, str(error))) from error
        except StoreError:
            assert database is not None
            database.close()
            raise
        return database

    def _prepare(self, database: sqlite3.Connection) -> None:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute(f"PRAGMA synchronous={'FULL' if self.durability == 'power' else 'NORMAL'}")
        database.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
        create(database)

    def close(self) -> None:
        """Put the tables in order, and give up the lock; harmless when repeated. In a forked process it does nothing.

        Raises:
            StoreError: The disk refuses; every commit is kept nevertheless, and the tables are put in order later.
        """
        if self._process_id != os.getpid():
            return
        try:
            if self._lock is not None and self._tail:
                self._write([], None)
        finally:
            self.closed = True
            self._database.close()
            self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- writing

    def append(self, entries: Sequence[Entry], snapshot: Snapshot | None = None) -> int:
        """Write entries, and a snapshot, in one commit; they are kept when this returns.

        Args:
            entries: In the order of their places, which must be new.
            snapshot: The state after them. Older snapshots but one are dropped.

        Returns:
            Length of the snapshot as JSON text; 0 without one.

        Raises:
            StoreError: The store is read-only, belongs to another process, or the disk refuses.
        """
        self._check_writable()
        rows = rows_of(entries, known=self._written)
        if not rows and snapshot is None:
            return 0
        last = max([self._last, *(entry.n for entry in entries[-1:]), snapshot.n if snapshot else 0])
        if entries and entries[0].n <= self._last:
            raise StoreError(
                f"{self.path} cannot be written: place {entries[0].n} of the journal is taken (the last is "
                f"{self._last}); nothing of this commit was kept"
            )
        if snapshot is None and len(self._tail) + len(rows) < _TAIL_ROWS:
            with self._writing():
                self._database.execute("INSERT INTO tail VALUES (?,?)", (last, encode(rows)))
            self._tail += rows
            size = 0
        else:
            size = self._write(rows, snapshot)
        self._last = last
        if len(self._written) > _TASKS_REMEMBERED:
            self._written.clear()
        self._written.update(str(row[0]) for table, row in rows if table == TASKS)
        return size

    def _write(self, rows: list[Row], snapshot: Snapshot | None) -> int:
        """Move the tail and further rows into the tables, with a snapshot, in one transaction."""
        run = self._database.execute
        with self._writing():
            run("BEGIN IMMEDIATE")
            for table, name in enumerate(TABLES):
                these = [row for place, row in (*self._tail, *rows) if place == table]
                if these:
                    verb = "INSERT OR IGNORE" if table == TASKS else "INSERT"
                    marks = ",".join("?" * len(these[0]))
                    self._database.executemany(f"{verb} INTO {name} VALUES ({marks})", these)
            run("DELETE FROM tail")
            size = 0 if snapshot is None else self._write_snapshot(snapshot)
            run("COMMIT")
        self._tail = []
        return size

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OverflowError, TypeError) as error:
            with contextlib.suppress(sqlite3.Error):
                self._database.execute("ROLLBACK")
            raise StoreError(f"{self.path} cannot be written: {error}; nothing of this commit was kept") from error

    def _write_snapshot(self, snapshot: Snapshot) -> int:
        text = json.dumps(snapshot.state)
        row = (snapshot.n, json.dumps(snapshot.settings), zlib.compress(text.encode(), 1))
        self._database.execute("INSERT OR REPLACE INTO snapshots VALUES (?,?,?)", row)
        self._database.execute(
            "DELETE FROM snapshots WHERE n NOT IN (SELECT n FROM snapshots ORDER BY n DESC LIMIT ?)",
            (_SNAPSHOTS_KEPT,),
        )
        return len(text)

    def _check_writable(self) -> None:
        if self.read_only:
            raise StoreError(f"{self.path} was opened with read_only=True")
        if self._process_id != os.getpid():
            raise StoreError(
                f"{self.path} was opened by process {self._process_id}, and this is process {os.getpid()}: serve the "
                "curriculum to other processes with spade_gym.curriculum.service.CurriculumServer"
            )

    # ---- reading

    def snapshot(self) -> Snapshot | None:
        """Return the newest snapshot, or ``None`` in a new store.

        Raises:
            StoreError: It is damaged.
        """
        return self._tables.snapshot()

    def last(self) -> int:
        """Place of the last entry in the journal; 0 when there is none."""
        return self._tables.last()

    def journal(self, after: int = 0) -> list[Entry]:
        """Return all entries later than a place, in order."""
        return self._tables.journal(after)

    def tasks(self) -> Iterator[Task]:
        """Yield every task that was handed out or added, ordered by id."""
        return self._tables.tasks()

    def outcomes(self) -> Iterator[Told]:
        """Yield every outcome that was told, in order."""
        return self._tables.outcomes()
