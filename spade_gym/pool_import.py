"""How programs come into a pool from the forms in which other people keep them.

Three forms are recognised:

* a pool folder of this package;
* the published form: ``manifest.jsonl`` (one JSON object a line, naming a file), ``checksums.sha256`` and the
  files ``game_*.py`` beside them or in ``games/``;
* a ``.jsonl`` or ``.parquet`` file with a column of program texts or of raw model replies.

Everything is treated as hostile: nothing is run, unpickled or evaluated, sizes are bounded, no path leaves the
folder, and an entry whose checksum is missing or wrong is refused by name while its neighbours are imported.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from spade_gym.errors import PoolError, SpadeError
from spade_gym.in_order import in_order
from spade_gym.plain_file import as_path
from spade_gym.pool import Pool
from spade_gym.pool_entry import read_entry
from spade_gym.pool_published import published, raiser
from spade_gym.pool_records import build_program, read_record
from spade_gym.pool_rows import json_lines, parquet_rows
from spade_gym.programs.program import MAX_SOURCE_BYTES, Program

#: Says why a program is not wanted, or ``None`` when it is.
Check = Callable[[Program], str | None]


class ImportResult(NamedTuple):
    """What became of one entry of the source.

    Attributes:
        entry: The file name, folder name or line that it was read from.
        accepted: It is in the pool now.
        name: The program's name, ``""`` when none could be read.
        digest: The program's digest, ``""`` when none could be read.
        message: Why it was refused, or ``already in the pool``, or ``""``.
    """

    entry: str
    accepted: bool
    name: str
    digest: str
    message: str


def import_pool(source: Path | str, pool: Pool, *, check: Check | None = None, jobs: int = 1) -> list[ImportResult]:
    """Bring every acceptable program of a source into a pool.

    Args:
        source: A pool folder, a published folder, or a ``.jsonl`` or ``.parquet`` file.
        pool: Where they go; importing the same source twice changes nothing.
        check: Asked about each new program first; a text refuses it. ``None`` checks nothing.
        jobs: Checks that run at a time.

    Returns:
        One result an entry, in the order of the source.

    Raises:
        TypeError: The source is no path.
        PoolError: The source has none of these forms, or it or the pool is damaged as a whole.
    """
    return list(import_entries(source, pool, check=check, jobs=jobs))


def import_entries(
    source: Path | str, pool: Pool, *, check: Check | None = None, jobs: int = 1
) -> Iterator[ImportResult]:
    """Do what :func:`import_pool` does and yield each result as soon as it is known."""
    known: set[str] = set()
    if pool.path.is_dir():
        known = {program.digest for program in pool.survey().programs}
    there_before = frozenset(known)

    def look(item: _Entry) -> ImportResult | tuple[str, Program]:
        return _look(*item, check, there_before)

    for seen in in_order(look, _entries(as_path("the source of an import", source)), jobs=jobs):
        yield seen if isinstance(seen, ImportResult) else _keep(*seen, pool, known)


_Entry = tuple[str, Callable[[], Program]]


def _look(
    entry: str, read: Callable[[], Program], check: Check | None, there_before: frozenset[str]
) -> ImportResult | tuple[str, Program]:
    """Read and check one entry; what is wrong with it becomes its result."""
    try:
        program = read()
    except (SpadeError, ValueError, RecursionError) as error:
        return ImportResult(entry, False, "", "", str(error))
    refusal = check(program) if check is not None and program.digest not in there_before else None
    if refusal is not None:
        return ImportResult(entry, False, program.name, program.digest, refusal)
    return entry, program


def _keep(entry: str, program: Program, pool: Pool, known: set[str]) -> ImportResult:
    if program.digest in known:
        return ImportResult(entry, True, program.name, program.digest, "already in the pool")
    try:
        pool.add(program)
    except SpadeError as error:
        return ImportResult(entry, False, program.name, program.digest, str(error))
    known.add(program.digest)
    return ImportResult(entry, True, program.name, program.digest, "")


def _entries(source: Path) -> Iterator[_Entry]:
    """Recognise the form of a source and return its entries, each with the way to read it."""
    if source.is_file():
        suffix = source.suffix.lower()
        if suffix in (".jsonl", ".ndjson"):
            return _rows(json_lines(source), source.name)
        if suffix == ".parquet":
            return _rows(parquet_rows(source), source.name)
    elif source.is_dir():
        if (source / "manifest.jsonl").exists():
            return published(source)
        if any(source.glob("*/manifest.toml")):
            return _own(source)
    elif not source.exists():
        raise PoolError(f"there is nothing at {str(source)!r} to import")
    hint = ""
    if (source.parent / "manifest.jsonl").exists() and source.is_dir():
        hint = f" Its parent folder has a manifest.jsonl: import {str(source.parent)!r}."
    raise PoolError(
        f"{str(source)!r} has none of the forms that can be imported: a pool folder (*/manifest.toml), a published "
        f"folder (manifest.jsonl, checksums.sha256, game_*.py), a .jsonl or a .parquet file.{hint}"
    )


def _own(source: Path) -> Iterator[_Entry]:
    for folder in sorted(source.iterdir()):
        if folder.is_dir() and folder.name[0] not in "._":
            yield folder.name, functools.partial(read_entry, folder)


def _rows(rows: Iterator[tuple[str, Any]], name: str) -> Iterator[_Entry]:
    for where, row in rows:
        if isinstance(row, PoolError):
            yield where, raiser(row)
        else:
            yield where, functools.partial(_row_program, row, where)


def _row_program(row: Mapping[str, Any], where: str) -> Program:
    record = read_record(row, where=where)
    for text in (record.source, record.reply):
        if len(text) > MAX_SOURCE_BYTES:
            raise PoolError(f"{where}: the program text is longer than {MAX_SOURCE_BYTES} characters")
    program = build_program(record)
    if record.manifest is not None and record.checksum and record.checksum != program.digest:
        raise PoolError(f"{where}: the source has digest {program.digest}, the record says {record.checksum[:80]}")
    return program
