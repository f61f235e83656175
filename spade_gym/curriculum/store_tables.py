"""What stands in a run's database: the rows of the journal, in their tables and in the tail that is not sorted yet."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from spade_gym.curriculum.journal import Added, Asked, Entry, Snapshot, Told, outcome_row, task_row, ticket_row, told
from spade_gym.curriculum.store_schema import TABLES, damaged
from spade_gym.curriculum.task import Task, Ticket
from spade_gym.curriculum.writer_lock import StoreError

#: A row of the journal with the place of its table in ``TABLES``.
Row = tuple[int, tuple[int | float | str | bool | None, ...]]

TASKS, TICKETS, OUTCOMES, ADDITIONS = range(len(TABLES))
encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Row]).decode


def rows_of(entries: Sequence[Entry], *, known: Collection[str]) -> list[Row]:
    """Return the rows of entries; those of tasks too, unless their ids are among the known."""
    rows: list[Row] = []
    for entry in entries:
        task = None
        if isinstance(entry, Told):
            rows.append((OUTCOMES, outcome_row(entry)))
        elif isinstance(entry, Asked):
            task = None if entry.ticket is None else entry.ticket.task
            rows.append((TICKETS, ticket_row(entry)))
        else:
            task = entry.task
            rows.append((ADDITIONS, (entry.n, task.id, entry.reason)))
        if task is not None and task.id not in known:
            rows.append((TASKS, task_row(task)))
    return rows


class Tables:
    """Reads a run's database, also while another process writes to it.

    Args:
        database: An open connection.
        path: For messages.
    """

    def __init__(self, database: sqlite3.Connection, path: Path) -> None:
        self._database = database
        self._path = path

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
                raise StoreError(damaged(self._path, f"snapshot {n} cannot be read: {error}")) from error
        return None

    def last(self) -> int:
        """Place of the last entry in the journal; 0 when there is none."""
        with self._reading():
            tables = ("tickets", "outcomes", "additions", "snapshots", "tail")
            places = [row[0] for table in tables for row in self._rows(f"SELECT coalesce(max(n), 0) FROM {table}")]
        return int(max(places))

    def journal(self, after: int = 0) -> list[Entry]:
        """Return all entries later than a place, in order."""
        entries: list[Entry] = []
        with self._reading():
            tasks = {task.id: task for task in self.tasks()}
            for n, number, task, seeds, arm, train, actor in self._table(TICKETS, after):
                ticket = None
                if number is not None:
                    ticket = Ticket(number, self._task(tasks, task), tuple(json.loads(seeds)), arm, bool(train), actor)
                entries.append(Asked(n, actor, ticket))
            entries += [told(row) for row in self._table(OUTCOMES, after)]
            for n, task, reason in self._table(ADDITIONS, after):
                entries.append(Added(n, self._task(tasks, task), reason))
        return sorted(entries, key=lambda entry: entry.n)

    def _task(self, tasks: dict[str, Task], task_id: str) -> Task:
        if task_id not in tasks:
            raise StoreError(damaged(self._path, f"the task {task_id} is missing"))
        return tasks[task_id]

    def tasks(self) -> Iterator[Task]:
        """Yield every task that was handed out or added, ordered by id."""
        with self._reading():
            rows = {row[0]: row for row in self._tail_of(TASKS)}
            rows |= {row[0]: row for row in self._rows("SELECT * FROM tasks")}
        for _, (_, kind, value, *rest) in sorted(rows.items()):
            yield Task(kind, json.loads(value), *rest)

    def outcomes(self) -> Iterator[Told]:
        """Yield every outcome that was told, in order."""
        with self._reading():
            rows = list(self._table(OUTCOMES))
        yield from map(told, rows)

    def _table(self, table: int, after: int = 0) -> Iterator[Any]:
        yield from self._rows(f"SELECT * FROM {TABLES[table]} WHERE n > ? ORDER BY n", after)
        yield from (row for row in self._tail_of(table) if row[0] > after)

    def _tail_of(self, table: int) -> Iterator[Any]:
        yield from (row for place, row in self.tail() if place == table)

    def _rows(self, query: str, *arguments: Any) -> Iterator[Any]:
        try:
            yield from self._database.execute(query, arguments)
        except sqlite3.DatabaseError as error:
            raise StoreError(damaged(self._path, str(error))) from error

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """See one state of the database, whatever a writer does meanwhile."""
        if self._database.in_transaction:
            yield
            return
        list(self._rows("BEGIN"))
        try:
            yield
        finally:
            list(self._rows("COMMIT"))

    def tail(self) -> list[Row]:
        """Return what is in no table yet, in order."""
        found: list[Row] = []
        for n, rows in self._rows("SELECT n, rows FROM tail ORDER BY n"):
            try:
                found += _decode(rows)
            except msgspec.DecodeError as error:
                raise StoreError(damaged(self._path, f"row {n} of its tail cannot be read: {error}")) from error
        return found
