"""A self-play run on disk: ``run.db`` in its folder. What was written stays written, whatever kills the process.

A cycle that is started again runs from its beginning, and takes from here all that was already asked, judged, played
or learnt: so a resumed run is the same as one that was never interrupted.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from spade_gym.curriculum.writer_lock import StoreError, take_lock
from spade_gym.models.sample import Sample
from spade_gym.programs.program import Manifest, Program
from spade_gym.rollout.play import Play, Turn
from spade_gym.selfplay.run_schema import APPLICATION, TABLES, VERSION

FILE_NAME = "run.db"
_pack = msgspec.msgpack.Encoder().encode
_unpack_samples = msgspec.msgpack.Decoder(tuple[Sample, ...]).decode


class RunStore:
    """The database of one run.

    Args:
        folder: The run's folder; it is made if missing, except for readers.
        read_only: For looking, also while another process writes.

    Raises:
        StoreError: There is no run, the database is damaged, of another kind or newer, or another process writes to
            it. It is never overwritten.
    """

    def __init__(self, folder: Path | str, *, read_only: bool = False) -> None:
        self.folder = Path(folder)
        self.path = self.folder / FILE_NAME
        self._lock: sqlite3.Connection | None = None
        if read_only and not self.path.is_file():
            raise StoreError(f"there is no run in {self.folder}: it has no {FILE_NAME}")
        if not read_only:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = take_lock(self.path)
        try:
            self._database = self._open(read_only)
        except BaseException:
            self._release()
            raise

    def _open(self, read_only: bool) -> sqlite3.Connection:
        mode = "ro" if read_only else "rwc"
        database = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None, timeout=10.0
        )
        try:
            self._prepare(database, read_only)
        except sqlite3.DatabaseError as error:
            database.close()
            raise StoreError(
                f"{self.path} cannot be used: {error}. It was left as it is; move it away, or start a run in another "
                "folder"
            ) from error
        except BaseException:
            database.close()
            raise
        return database

    def _prepare(self, database: sqlite3.Connection, read_only: bool) -> None:
        application, version = (
            database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
        )
        tables = database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if tables and application != APPLICATION:
            raise StoreError(f"{self.path} is a database of another kind; start a run in another folder")
        if version > VERSION:
            raise StoreError(f"{self.path} is of version {version}, this software knows {VERSION}: update spade-gym")
        if read_only:
            return
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=NORMAL")
        if not tables:
            with _transaction(database):
                for statement in TABLES.split(";\n"):
                    database.execute(statement)
                database.execute(f"PRAGMA application_id={APPLICATION}")
                database.execute(f"PRAGMA user_version={VERSION}")

    def close(self) -> None:
        """Close the database and give up the lock."""
        self._database.close()
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> RunStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- rows

    def put(self, table: str, *rows: Mapping[str, Any]) -> None:
        """Write rows, in one transaction; a row with the key of an earlier one takes its place."""
        with _transaction(self._database):
            for row in rows:
                marks = ", ".join("?" * len(row))
                self._database.execute(
                    f"INSERT OR REPLACE INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values())
                )

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """The rows that a query finds."""
        cursor = self._database.execute(query, values)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]

    def row(self, query: str, values: Sequence[Any] = ()) -> dict[str, Any] | None:
        """The first row that a query finds."""
        return next(iter(self.rows(query, values)), None)

    def meta(self, name: str) -> Any:
        """A value about the whole run; ``None`` where there is none."""
        found = self.row("SELECT value FROM meta WHERE name = ?", (name,))
        return None if found is None else json.loads(found["value"])

    def set_meta(self, name: str, value: Any) -> None:
        """Keep a JSON value about the whole run."""
        self.put("meta", {"name": name, "value": json.dumps(value, sort_keys=True)})

    # ---- programs

    def put_program(self, program: Program) -> None:
        """Keep a program's source; its manifest belongs to the attempt that made it."""
        self.put("programs", {
            "digest": program.digest, "name": program.name, "setting": program.setting,
            "skill": program.manifest.skill, "source": program.source,
        })  # fmt: skip

    def source(self, digest: str) -> str | None:
        """The source of a program; ``None`` where it is not known."""
        found = self.row("SELECT source FROM programs WHERE digest = ?", (digest,))
        return None if found is None else str(found["source"])

    def program(self, digest: str, manifest: str) -> Program:
        """A program with a manifest that was kept."""
        source = self.source(digest)
        if source is None:
            raise StoreError(f"{self.path}: the program {digest[:12]} is missing")
        return Program(source, Manifest.from_toml(manifest, where=f"{self.path}, program {digest[:12]}")[0])

    # ---- plays

    def put_plays(self, rollout: int, plays: Iterable[Play]) -> None:
        """Keep plays that ended."""
        self.put("plays", *(_row_of_play(rollout, play) for play in plays))

    def is_learnt(self, rollout: int) -> bool:
        """Whether an update has learnt from a rollout's plays."""
        return self.row("SELECT rollout FROM updates WHERE rollout = ?", (rollout,)) is not None

    def plays(self, rollout: int, arm: str) -> dict[str, Play]:
        """The plays of a rollout's arm that are there, by key."""
        found = self.rows("SELECT * FROM plays WHERE rollout = ? AND arm = ?", (rollout, arm))
        return {row["key"]: play_of_row(row) for row in found}


def _row_of_play(rollout: int, play: Play) -> dict[str, Any]:
    return {
        "key": play.key, "rollout": rollout, "environment": int(play.key.split("/")[2]), "digest": play.digest,
        "seed": play.seed, "arm": play.arm, "total": play.total, "won": int(play.won), "length": play.length,
        "status": play.status, "fault": play.fault, "ended": play.ended, "policy_version": play.policy_version,
        "prompt_tokens": play.prompt_tokens, "completion_tokens": play.completion_tokens,
        "transcript": _pack((play.turns, play.last_observation)), "samples": _pack(play.samples),
        "play_seconds": play.seconds, "ended_at": time.time(),
    }  # fmt: skip


_unpack_transcript = msgspec.msgpack.Decoder(tuple[tuple[Turn, ...], str]).decode


def play_of_row(row: Mapping[str, Any]) -> Play:
    """Read a row of the table ``plays``."""
    turns, last_observation = _unpack_transcript(row["transcript"])
    return Play(
        key=row["key"], digest=row["digest"], seed=row["seed"], arm=row["arm"], total=row["total"],
        won=bool(row["won"]), length=row["length"], status=row["status"], fault=row["fault"], ended=row["ended"],
        turns=turns, samples=_unpack_samples(row["samples"]), policy_version=row["policy_version"],
        prompt_tokens=row["prompt_tokens"], completion_tokens=row["completion_tokens"], seconds=row["play_seconds"],
        last_observation=last_observation,
    )  # fmt: skip


@contextlib.contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[None]:
    """All or nothing."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")
