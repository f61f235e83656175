"""A self-play run on disk: ``run.db`` in its folder. What was written stays written, whatever kills the process.

A cycle that is started again runs from its beginning, and takes from here all that was already asked, judged, played
or learnt: so a resumed run is the same as one that was never interrupted.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from spade_gym.curriculum.writer_lock import StoreError, take_lock
from spade_gym.models.sample import Sample
from spade_gym.plain_file import shown
from spade_gym.programs.program import Manifest, Program
from spade_gym.rollout.play import Play, Turn
from spade_gym.selfplay.environment import environment_of
from spade_gym.selfplay.run_database import check_files, open_database, transaction
from spade_gym.selfplay.run_schema import kinds

FILE_NAME = "run.db"
_pack = msgspec.msgpack.Encoder().encode
_unpack_samples = msgspec.msgpack.Decoder(tuple[Sample, ...]).decode


class Finding(msgspec.Struct):
    """What a check said, as far as it is shown."""

    message: str
    check: str = ""
    kind: str = ""


class Findings(msgspec.Struct):
    """What all checks said of a program."""

    failures: list[Finding] = []
    warnings: list[Finding] = []
    notices: list[Finding] = []


_unpack_findings = msgspec.json.Decoder(Findings).decode


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
        if read_only and not os.path.lexists(self.path):
            raise StoreError(f"there is no run in {self.folder}: it has no {FILE_NAME}")
        if not read_only:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StoreError(f"{self.folder} cannot be made: {error.strerror}; name another folder") from error
        check_files(self.path)
        if not read_only:
            self._lock = take_lock(self.path)
        try:
            self._database = open_database(self.path, read_only=read_only)
        except BaseException:
            self._release()
            raise

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
        """Write rows, in one transaction; a row with the key of an earlier one takes its place.

        Raises:
            StoreError: They cannot be written; what was written before is kept.
        """
        try:
            with transaction(self._database):
                for row in rows:
                    marks = ", ".join("?" * len(row))
                    self._database.execute(
                        f"INSERT OR REPLACE INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values())
                    )
        except sqlite3.Error as error:
            raise StoreError(self._refused(error)) from error

    def _refused(self, error: sqlite3.Error) -> str:
        """Say why rows cannot be written, and what to do."""
        code = getattr(error, "sqlite_errorname", None) or ""
        kept = "what was written before is kept"
        if code.startswith(("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CANTOPEN")):
            return f"the disk refuses {self.path}: {error}; {kept}; free space and start the same command again"
        if code.startswith("SQLITE_BUSY"):
            return f"another program holds {self.path}: {error}; {kept}; end it and start the same command again"
        return f"{self.path} cannot be written: {error}; {kept}. Move it away, or start a run in another folder"

    def each(self, query: str, values: Sequence[Any] = ()) -> Iterator[dict[str, Any]]:
        """The rows that a query finds, one at a time.

        A column with the name of a table's column must hold what that holds, or nothing: SQLite itself lets a text
        be where a number is expected.

        Raises:
            StoreError: The database is damaged, or holds values of the wrong kind.
        """
        try:
            cursor = self._database.execute(query, values)
            names = [column[0] for column in cursor.description]
            known = kinds()
            wanted = [known.get(name, object) for name in names]
            for row in cursor:
                for name, kind, value in zip(names, wanted, row, strict=True):
                    if value is not None and not isinstance(value, kind):
                        raise StoreError(self._damaged(f"the column {name} holds {shown(value)}"))
                yield dict(zip(names, row, strict=True))
        except (sqlite3.Error, OverflowError) as error:
            raise StoreError(self._damaged(str(error))) from error

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """All rows that a query finds; see :meth:`each`."""
        return list(self.each(query, values))

    def row(self, query: str, values: Sequence[Any] = ()) -> dict[str, Any] | None:
        """The first row that a query finds; see :meth:`each`."""
        return next(self.each(query, values), None)

    def _damaged(self, what: str) -> str:
        return (
            f"{self.path} cannot be read: {what}. It is damaged, or was changed by other software, and was left as it "
            "is; move it away, or take a copy of it from before"
        )

    def meta(self, name: str) -> Any:
        """A value about the whole run; ``None`` where there is none."""
        found = self.row("SELECT value FROM meta WHERE name = ?", (name,))
        if found is None:
            return None
        try:
            return json.loads(found["value"])
        except (ValueError, TypeError, RecursionError) as error:
            raise StoreError(self._damaged(f"the JSON of meta {name}: {error}")) from error

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
        return {row["key"]: self.play(row) for row in found}

    def play(self, row: Mapping[str, Any]) -> Play:
        """The play that a row of the table ``plays`` holds.

        Raises:
            StoreError: It is damaged.
        """
        try:
            return _play_of_row(row)
        except (msgspec.MsgspecError, ValueError, TypeError) as error:
            raise StoreError(self._damaged(f"the play {shown(row['key'])}: {error}")) from error

    # ---- findings

    def findings(self, attempt: Mapping[str, Any]) -> Findings:
        """What the checks said about a row of the table ``attempts``.

        Raises:
            StoreError: It is damaged.
        """
        try:
            return _unpack_findings(attempt["findings"])
        except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
            raise StoreError(self._damaged(f"findings of {shown(attempt.get('key'))}: {error}")) from error


#: Fields of a play that are columns of the same name.
_SAME_NAMES = (
    "key", "digest", "seed", "arm", "total", "length", "status", "fault", "ended", "policy_version", "prompt_tokens",
    "completion_tokens",
)  # fmt: skip


def _row_of_play(rollout: int, play: Play) -> dict[str, Any]:
    return {
        "key": play.key, "rollout": rollout, "environment": environment_of(play.key), "digest": play.digest,
        "seed": play.seed, "arm": play.arm, "total": play.total, "won": int(play.won), "length": play.length,
        "status": play.status, "fault": play.fault, "ended": play.ended, "policy_version": play.policy_version,
        "prompt_tokens": play.prompt_tokens, "completion_tokens": play.completion_tokens,
        "transcript": _pack((play.turns, play.last_observation)), "samples": _pack(play.samples),
        "play_seconds": play.seconds, "ended_at": time.time(),
    }  # fmt: skip


_unpack_transcript = msgspec.msgpack.Decoder(tuple[tuple[Turn, ...], str]).decode


def _play_of_row(row: Mapping[str, Any]) -> Play:
    turns, last_observation = _unpack_transcript(row["transcript"])
    play = msgspec.convert(
        {
            **{name: row[name] for name in _SAME_NAMES}, "won": {0: False, 1: True}.get(row["won"], row["won"]),
            "turns": turns, "samples": _unpack_samples(row["samples"]), "seconds": row["play_seconds"],
            "last_observation": last_observation,
        },
        Play,
    )  # fmt: skip
    if not math.isfinite(play.total):
        raise ValueError(f"its return is {play.total!r}")
    return play
