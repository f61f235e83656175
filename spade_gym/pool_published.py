"""How a published pool is read: ``manifest.jsonl``, ``checksums.sha256`` and files ``game_*.py``.

The files lie beside the manifest or in ``games/``. A file is only read when a checksum vouches for it.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from spade_gym.errors import PoolError
from spade_gym.plain_file import read_file
from spade_gym.pool_records import Record, build_program, read_record
from spade_gym.pool_rows import json_lines
from spade_gym.programs.program import MAX_SOURCE_BYTES, Program

#: Largest manifest and list of checksums, in bytes.
MAX_MANIFEST_BYTES = 1 << 30
MAX_CHECKSUM_BYTES = 16 << 20


def published(source: Path) -> Iterator[tuple[str, Callable[[], Program]]]:
    """Yield the programs that ``manifest.jsonl`` lists, then what only the disk or the checksums know."""
    checksums = _checksums(source)
    manifest = source / "manifest.jsonl"
    if "manifest.jsonl" in checksums:
        _verify(manifest, "manifest.jsonl", checksums, max_bytes=MAX_MANIFEST_BYTES)
    listed: set[Path] = set()
    for where, row in json_lines(manifest):
        if isinstance(row, PoolError):
            yield where, raiser(row)
            continue
        try:
            record = read_record(row, where=where)
            path, entry = _locate(source, record.file)
        except PoolError as error:
            yield where, raiser(error)
            continue
        listed.add(path)
        yield (
            entry,
            lambda path=path, entry=entry, record=record: _published_program(  # type: ignore[misc]
                path, entry, record, checksums
            ),
        )
    yield from _unlisted(source, listed, checksums)


def _unlisted(
    source: Path, listed: set[Path], checksums: Mapping[str, str]
) -> Iterator[tuple[str, Callable[[], Program]]]:
    """Refuse by name the games that no line of ``manifest.jsonl`` names, and those that are gone."""
    games = {*source.glob("game_*.py"), *source.glob("games/game_*.py")}
    for path in sorted(games - listed):
        entry = path.relative_to(source).as_posix()
        yield entry, raiser(PoolError(f"{entry!r} is not listed in manifest.jsonl"))
    known = {path.name for path in games | listed}
    for entry in sorted(checksums):
        name = PurePosixPath(entry).name
        if re.fullmatch(r"game_.*\.py", name) and name not in known:
            yield entry, raiser(PoolError(f"{entry!r} is in checksums.sha256 but not in the folder; fetch it again"))


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


def raiser(error: PoolError) -> Callable[[], Program]:
    """Return a reader of a program that refuses it."""

    def read() -> Program:
        raise error

    return read
