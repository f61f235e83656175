"""Where a curriculum's tasks, tickets and outcomes are kept: ``run.db``, an SQLite database in the run's folder.

What survives: a commit that has returned survives the death of the process in any way (``kill -9``), because the
operating system has the data. With ``durability="power"`` it is also on the disk (``synchronous=FULL``: one
``fsync`` a commit) and so survives a power failure or a crash of the operating system; with the default,
``"process"``, such a failure may take the last commits (since the last checkpoint of the log, about 4,000 pages), but
never damages what came before. Every commit is whole or absent.

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
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, get_args

from spade_gym.curriculum.journal import Added, Asked, Entry, Snapshot, Told, outcome_row, task_row, ticket_row, told
from spade_gym.curriculum.task import Task, Ticket
from spade_gym.curriculum.writer_lock import StoreError, take_lock

__all__ = ["Store", "StoreError"]

FILE_NAME = "run.db"
SCHEMA_VERSION = 1
Durability = Literal["process", "power"]

_APPLICATION_ID = 0x53504144
_MAGIC = b"SQLite format 3\x00"
_SNAPSHOTS_KEPT = 2
_CHECKPOINT_PAGES = 4000
_TASKS_REMEMBERED = 20_000
_SCHEMA = """
CREATE TABLE tasks (
    id TEXT PRIMARY KEY, kind TEXT NOT NULL, value TEXT NOT NULL, skill TEXT NOT NULL, parent TEXT NOT NULL,
    mutation TEXT NOT NULL, hint TEXT NOT NULL
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
"""


class Store:
    """The database of one run.

    Args:
        path: The run's folder; it is made if missing (not for readers).
        read_only: Open beside a writer, for looking.
        durability: What a commit survives (see the module): ``process`` or ``power``.

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
        self._process_id = os.getpid()
        self._written: set[str] = set()
        self._lock: sqlite3.Connection | None = None
        if read_only:
            if not self.path.exists():
                raise StoreError(f"there is no {FILE_NAME} in {self.folder}: is it a run's folder?")
        else:
            self._make_folder()
        _check_header(self.path)
        if not read_only:
            self._lock = take_lock(self.path)
        try:
            self._database = self._connect()
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
            database = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=10.0)
            _check_contents(database, self.path)
            if not self.read_only:
                self._prepare(database)
        except sqlite3.DatabaseError as error:
            if database is not None:
                database.close()
            if isinstance(error, sqlite3.OperationalError):
                raise StoreError(f"{self.path} cannot be opened: {error}") from error
            raise StoreError(_damaged(self.path, str(error))) from error
        except StoreError:
            assert database is not None
            database.close()
            raise
        return database

    def _prepare(self, database: sqlite3.Connection) -> None:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute(f"PRAGMA synchronous={'FULL' if self.durability == 'power' else 'NORMAL'}")
        database.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
        if not _version(database):
            database.executescript(
                f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA application_id={_APPLICATION_ID};"
                f"PRAGMA user_version={SCHEMA_VERSION}; COMMIT;"
            )

    def close(self) -> None:
        """Give up the lock; harmless when repeated. In a forked process it does nothing."""
        if self._process_id == os.getpid():
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
        run = self._database.execute
        tables = self._rows_of(entries)
        try:
            run("BEGIN IMMEDIATE")
            for table, rows in tables.items():
                if rows:
                    verb = "INSERT OR IGNORE" if table == "tasks" else "INSERT"
                    marks = ",".join("?" * len(rows[0]))
                    self._database.executemany(f"{verb} INTO {table} VALUES ({marks})", rows)
            size = 0 if snapshot is None else self._write_snapshot(snapshot)
            run("COMMIT")
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                run("ROLLBACK")
            raise StoreError(f"{self.path} cannot be written: {error}; nothing of this commit was kept") from error
        if len(self._written) > _TASKS_REMEMBERED:
            self._written.clear()
        self._written.update(row[0] for row in tables["tasks"])
        return size

    def _rows_of(self, entries: Sequence[Entry]) -> dict[str, list[tuple[Any, ...]]]:
        rows: dict[str, list[tuple[Any, ...]]] = {"tasks": [], "tickets": [], "outcomes": [], "additions": []}
        for entry in entries:
            task = None
            if isinstance(entry, Told):
                rows["outcomes"].append(outcome_row(entry))
            elif isinstance(entry, Asked):
                task = None if entry.ticket is None else entry.ticket.task
                rows["tickets"].append(ticket_row(entry))
            else:
                task = entry.task
                rows["additions"].append((entry.n, task.id, entry.reason))
            if task is not None and task.id not in self._written:
                rows["tasks"].append(task_row(task))
        return rows

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
        row = self._rows("SELECT n, settings, state FROM snapshots ORDER BY n DESC LIMIT 1")
        for n, settings, state in row:
            try:
                return Snapshot(n, json.loads(settings), json.loads(zlib.decompress(state)))
            except (zlib.error, ValueError) as error:
                raise StoreError(_damaged(self.path, f"snapshot {n} cannot be read: {error}")) from error
        return None

    def last(self) -> int:
        """Place of the last entry in the journal; 0 when there is none."""
        tables = ("tickets", "outcomes", "additions", "snapshots")
        places = [row[0] for table in tables for row in self._rows(f"SELECT coalesce(max(n), 0) FROM {table}")]
        return int(max(places))

    def journal(self, after: int = 0) -> list[Entry]:
        """Return all entries later than a place, in order."""
        tasks = {task.id: task for task in self.tasks()}
        entries: list[Entry] = []
        for n, number, task, seeds, arm, train, actor in self._rows("SELECT * FROM tickets WHERE n > ?", after):
            ticket = None
            if number is not None:
                ticket = Ticket(number, self._task(tasks, task), tuple(json.loads(seeds)), arm, bool(train), actor)
            entries.append(Asked(n, actor, ticket))
        entries += [told(row) for row in self._rows("SELECT * FROM outcomes WHERE n > ?", after)]
        for n, task, reason in self._rows("SELECT * FROM additions WHERE n > ?", after):
            entries.append(Added(n, self._task(tasks, task), reason))
        return sorted(entries, key=lambda entry: entry.n)

    def _task(self, tasks: dict[str, Task], task_id: str) -> Task:
        if task_id not in tasks:
            raise StoreError(_damaged(self.path, f"the task {task_id} is missing"))
        return tasks[task_id]

    def tasks(self) -> Iterator[Task]:
        """Yield every task that was handed out or added, ordered by id."""
        for _, kind, value, *rest in self._rows("SELECT * FROM tasks ORDER BY id"):
            yield Task(kind, json.loads(value), *rest)

    def outcomes(self) -> Iterator[Told]:
        """Yield every outcome that was told, in order."""
        yield from map(told, self._rows("SELECT * FROM outcomes ORDER BY n"))

    def _rows(self, query: str, *arguments: Any) -> Iterator[Any]:
        try:
            yield from self._database.execute(query, arguments)
        except sqlite3.DatabaseError as error:
            raise StoreError(_damaged(self.path, str(error))) from error


def _check_header(path: Path) -> None:
    """Refuse what is no SQLite database before SQLite opens it."""
    if not path.exists():
        return
    try:
        with path.open("rb") as file:
            head = file.read(len(_MAGIC))
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error}") from error
    if head and head != _MAGIC:
        raise StoreError(_damaged(path, f"it is no SQLite database (it begins with {head!r})"))


def _check_contents(database: sqlite3.Connection, path: Path) -> None:
    application = database.execute("PRAGMA application_id").fetchone()[0]
    version = _version(database)
    tables = database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if not application and not version and not tables:
        return
    if application != _APPLICATION_ID:
        raise StoreError(f"{path} is a database of another program; it was left as it is. Use another folder")
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{path} was written by a newer spade-gym (schema version {version}; this one knows up to "
            f"{SCHEMA_VERSION}); it was left as it is. Update spade-gym, or use another folder"
        )
    found = [row[0] for row in database.execute("PRAGMA quick_check(3)")]
    if found != ["ok"]:
        raise StoreError(_damaged(path, "; ".join(found)))


def _version(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA user_version").fetchone()[0])


def _damaged(path: Path, problem: str) -> str:
    return (
        f"{path} is damaged: {problem}. It was left as it is: restore it from a copy (with {path.name}-wal, if there "
        "is one), or start a new run in another folder"
    )
