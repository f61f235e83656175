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
import hashlib
import importlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from spade_gym.errors import PoolError, SpadeError
from spade_gym.pool import Pool
from spade_gym.pool_entry import MAX_SOURCE_BYTES, read_entry, read_file
from spade_gym.pool_records import Record, build_program, read_record
from spade_gym.programs.program import Program

#: Longest line of a JSONL file and largest list of checksums, in bytes.
MAX_LINE_BYTES = 8 << 20
MAX_CHECKSUM_BYTES = 16 << 20

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


def import_pool(source: Path | str, pool: Pool, *, check: Check | None = None) -> list[ImportResult]:
    """Bring every acceptable program of a source into a pool.

    Args:
        source: A pool folder, a published folder, or a ``.jsonl`` or ``.parquet`` file.
        pool: Where they go; importing the same source twice changes nothing.
        check: Asked about each program first; a text refuses it. ``None`` checks nothing.

    Returns:
        One result an entry, in the order of the source.

    Raises:
        PoolError: The source has none of these forms, or it or the pool is damaged as a whole.
    """
    source = Path(source)
    known: set[str] = set()
    if pool.path.is_dir():
        known = {program.digest for program in pool}
    return [_take(entry, read, pool, known, check) for entry, read in _entries(source)]


_Entry = tuple[str, Callable[[], Program]]


def _take(entry: str, read: Callable[[], Program], pool: Pool, known: set[str], check: Check | None) -> ImportResult:
    """Read, check and add one entry; what is wrong with it becomes its result."""
    try:
        program = read()
    except (SpadeError, ValueError, RecursionError) as error:
        return ImportResult(entry, False, "", "", str(error))
    if program.digest in known:
        return ImportResult(entry, True, program.name, program.digest, "already in the pool")
    refusal = check(program) if check is not None else None
    if refusal is not None:
        return ImportResult(entry, False, program.name, program.digest, refusal)
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
            return _rows(_json_lines(source), source.name)
        if suffix == ".parquet":
            return _rows(_parquet_rows(source), source.name)
    elif source.is_dir():
        if (source / "manifest.jsonl").exists():
            return _published(source)
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


def _published(source: Path) -> Iterator[_Entry]:
    """Yield the programs that ``manifest.jsonl`` lists, then what only the disk or the checksums know."""
    checksums = _checksums(source)
    manifest = source / "manifest.jsonl"
    if "manifest.jsonl" in checksums:
        _verify(manifest, "manifest.jsonl", checksums, max_bytes=1 << 30)
    listed: set[Path] = set()
    for where, row in _json_lines(manifest):
        if isinstance(row, PoolError):
            yield where, _raiser(row)
            continue
        try:
            record = read_record(row, where=where)
            path, entry = _locate(source, record.file)
        except PoolError as error:
            yield where, _raiser(error)
            continue
        listed.add(path)
        yield (
            entry,
            lambda path=path, entry=entry, record=record: _published_program(  # type: ignore[misc]
                path, entry, record, checksums
            ),
        )
    yield from _unlisted(source, listed, checksums)


def _unlisted(source: Path, listed: set[Path], checksums: Mapping[str, str]) -> Iterator[_Entry]:
    """Refuse by name the games that no line of ``manifest.jsonl`` names, and those that are gone."""
    games = {*source.glob("game_*.py"), *source.glob("games/game_*.py")}
    for path in sorted(games - listed):
        entry = path.relative_to(source).as_posix()
        yield entry, _raiser(PoolError(f"{entry!r} is not listed in manifest.jsonl"))
    known = {path.name for path in games | listed}
    for entry in sorted(checksums):
        name = PurePosixPath(entry).name
        if re.fullmatch(r"game_.*\.py", name) and name not in known:
            yield entry, _raiser(PoolError(f"{entry!r} is in checksums.sha256 but not in the folder; fetch it again"))


def _published_program(path: Path, entry: str, record: Record, checksums: Mapping[str, str]) -> Program:
    data = _verify(path, entry, checksums, max_bytes=MAX_SOURCE_BYTES)
    if record.checksum and record.checksum != hashlib.sha256(data).hexdigest():
        raise PoolError(f"{entry!r} does not have the checksum that manifest.jsonl states, {record.checksum[:80]}")
    try:
        source = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise PoolError(f"{entry!r} is not UTF-8 text: {error}") from error
    return build_program(record._replace(source=source, reply=""))


def _verify(path: Path, entry: str, checksums: Mapping[str, str], *, max_bytes: int) -> bytes:
    """Read a file and compare it with its checksum.

    Raises:
        PoolError: It has no checksum, is unreadable, or differs.
    """
    expected = checksums.get(entry, checksums.get(path.name))
    if expected is None:
        raise PoolError(f"{entry!r} has no line in checksums.sha256; nothing vouches for its content")
    data = read_file(path, max_bytes=max_bytes)
    found = hashlib.sha256(data).hexdigest()
    if found != expected:
        raise PoolError(
            f"{entry!r} does not match checksums.sha256 (its sha256 is {found}, listed is {expected}); fetch it again"
        )
    return data


def _checksums(source: Path) -> dict[str, str]:
    """Read ``<hex>  <file>`` lines; a file that is listed with two checksums has none."""
    path = source / "checksums.sha256"
    if not path.exists():
        raise PoolError(
            f"{str(source)!r} has a manifest.jsonl but no checksums.sha256; nothing vouches for its files. If you "
            "made them yourself: sha256sum game_*.py > checksums.sha256"
        )
    checksums: dict[str, str] = {}
    text = read_file(path, max_bytes=MAX_CHECKSUM_BYTES).decode("utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(r"([0-9A-Fa-f]{64})[ \t]+\*?(.+)", line.strip())
        if match is None:
            raise PoolError(f"checksums.sha256 line {number} is no '<sha256>  <file>': {line[:80]!r}")
        name = str(PurePosixPath(match[2]))
        if checksums.setdefault(name, match[1].lower()) != match[1].lower():
            checksums[name] = "two different checksums"
    return checksums


def _locate(source: Path, name: str) -> tuple[Path, str]:
    """Return the file that a record names and its name inside the pool.

    Raises:
        PoolError: The record names no file, or one outside the folder, or one behind a link.
    """
    if not name:
        raise PoolError("the record names no file (a key such as file, filename or path)")
    parts = PurePosixPath(name).parts
    if "\\" in name or "\0" in name or ":" in name or name.startswith("/") or ".." in parts or not parts:
        raise PoolError(f"the record names {name!r}, which is not a plain path inside the pool; refused")
    inside = PurePosixPath(*parts)
    if not os.path.exists(source / inside) and os.path.exists(source / "games" / inside):
        inside = "games" / inside
    for depth in range(1, len(inside.parts) + 1):
        if os.path.islink(source / PurePosixPath(*inside.parts[:depth])):
            raise PoolError(f"the record names {name!r}, which is or lies behind a symbolic link; refused")
    return source / inside, str(inside)


def _json_lines(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield every line as (where, object); a line that is no JSON object as (where, PoolError)."""
    if path.is_symlink():
        raise PoolError(f"{str(path)!r} is a symbolic link; links are not followed: put the file itself there")
    with open(path, "rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES + 1), b""), start=1):
            where = f"{path.name} line {number}"
            if len(line) > MAX_LINE_BYTES:
                raise PoolError(f"{where} is longer than {MAX_LINE_BYTES} bytes")
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                yield where, PoolError(f"{where} is not valid JSON: {error}")
                continue
            yield where, row if isinstance(row, dict) else PoolError(f"{where} is no JSON object: {line[:60]!r}")


def _parquet_rows(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise PoolError(
            "reading Parquet needs pyarrow: pip install 'spade-gym[parquet]', or convert the file to JSONL"
        ) from error
    number = 0
    try:
        for batch in parquet.ParquetFile(path).iter_batches(batch_size=64):
            for row in batch.to_pylist():
                number += 1
                yield f"{path.name} row {number}", row
    except (arrow.ArrowException, OSError) as error:
        raise PoolError(f"{str(path)!r} is no readable Parquet file (after row {number}): {error}") from error


def _rows(rows: Iterator[tuple[str, Any]], name: str) -> Iterator[_Entry]:
    for where, row in rows:
        if isinstance(row, PoolError):
            yield where, _raiser(row)
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


def _raiser(error: PoolError) -> Callable[[], Program]:
    def read() -> Program:
        raise error

    return read
