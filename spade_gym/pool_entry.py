"""How one program lies in a folder, and how it is read and written without trusting what is there.

An entry is a folder that holds ``program.py`` and ``manifest.toml``. A pool may come from anybody, so reading
an entry never leaves its folder (no symbolic links, only regular files), never reads more than a stated size,
and never runs anything. It is no defence against somebody who changes the folder *while* it is read.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import time
from pathlib import Path

from spade_gym.errors import ManifestError, PoolError
from spade_gym.programs.program import Manifest, Program

#: Largest source and manifest that a pool takes, in bytes.
MAX_SOURCE_BYTES = 1 << 20
MAX_MANIFEST_BYTES = 1 << 18

#: Folders of this prefix are half-written entries; those older than this many seconds are leftovers of a crash.
TEMPORARY_PREFIX = ".tmp-"
TEMPORARY_SECONDS = 3600.0


def read_file(path: Path, *, max_bytes: int, follow: bool = False) -> bytes:
    """Read a regular file of bounded size, without following a symbolic link.

    Args:
        path: The file.
        max_bytes: Largest size that is read.
        follow: Follow symbolic links (for files of installed packages, which some installers link).

    Raises:
        PoolError: It is missing, a link, no regular file, too large or unreadable.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    if not follow:
        if path.is_symlink():
            raise PoolError(f"{str(path)!r} is a symbolic link; links are not followed: put the file itself there")
        flags |= getattr(os, "O_NOFOLLOW", 0)
    try:
        descriptor = os.open(path, flags)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise PoolError(f"{str(path)!r} cannot be read: {reason}") from error
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise PoolError(f"{str(path)!r} is no regular file")
        try:
            data = file.read(max_bytes + 1)
        except OSError as error:
            raise PoolError(f"{str(path)!r} cannot be read: {error}") from error
    if len(data) > max_bytes:
        raise PoolError(f"{str(path)!r} is larger than the {max_bytes} bytes that are allowed for it")
    return data


def read_manifest(folder: Path, *, follow: bool = False) -> tuple[Manifest, str]:
    """Read an entry's manifest and the digest it states, without its source.

    Raises:
        PoolError: The folder is a link, or the manifest is missing, too large or malformed.
    """
    if not follow and folder.is_symlink():
        raise PoolError(f"{str(folder)!r} is a symbolic link; links are not followed: put the folder itself there")
    path = folder / "manifest.toml"
    text = _decode(read_file(path, max_bytes=MAX_MANIFEST_BYTES, follow=follow), path)
    try:
        manifest, digest = Manifest.from_toml(text, where=repr(str(path)))
    except (ManifestError, ValueError, RecursionError) as error:  # the last two: numbers and nesting without end
        raise PoolError(f"{str(path)!r}: {error}" if not isinstance(error, ManifestError) else str(error)) from error
    if len(digest) != 64:
        raise PoolError(f"{str(path)!r}: the field 'digest' must be the sha256 of program.py, got {digest[:80]!r}")
    return manifest, digest


def read_entry(folder: Path, *, follow: bool = False) -> Program:
    """Read an entry and check its digest.

    Raises:
        PoolError: A file is missing, a link, too large or malformed, or the digest does not match.
    """
    manifest, digest = read_manifest(folder, follow=follow)
    path = folder / "program.py"
    source = _decode(read_file(path, max_bytes=MAX_SOURCE_BYTES, follow=follow), path)
    try:
        return Program(source=source, manifest=manifest, digest=digest)
    except ManifestError as error:
        raise PoolError(f"{str(folder)!r}: {error}") from error


def encode_entry(program: Program) -> tuple[bytes, bytes]:
    """Return the bytes of ``program.py`` and ``manifest.toml``.

    Raises:
        PoolError: One is larger than a pool takes.
        ManifestError: TOML cannot hold a value of the manifest.
    """
    source, manifest = program.source.encode("utf-8"), program.manifest.to_toml(program.digest).encode("utf-8")
    limits = (("source", source, MAX_SOURCE_BYTES), ("manifest", manifest, MAX_MANIFEST_BYTES))
    for what, data, limit in limits:
        if len(data) > limit:
            raise PoolError(f"the {what} of {program.name} has {len(data)} bytes; a pool takes at most {limit}")
    return source, manifest


def write_temporary(pool: Path, files: dict[str, bytes]) -> Path:
    """Write files durably into a fresh temporary folder of a pool and return the folder."""
    folder = pool / f"{TEMPORARY_PREFIX}{os.getpid()}-{secrets.token_hex(8)}"
    folder.mkdir()
    for name, data in files.items():
        with open(folder / name, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    sync_folder(folder)
    return folder


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable (POSIX; elsewhere the file system decides)."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_old_temporaries(pool: Path, *, older_than_seconds: float = TEMPORARY_SECONDS) -> None:
    """Remove what writers that were killed left behind; a living writer's folder is younger than that."""
    oldest = time.time() - older_than_seconds
    for folder in pool.glob(TEMPORARY_PREFIX + "*"):
        try:
            status = folder.lstat()
        except OSError:  # another writer removed it, or finished
            continue
        if stat.S_ISDIR(status.st_mode) and status.st_mtime < oldest:
            shutil.rmtree(folder, ignore_errors=True)


def _decode(data: bytes, path: Path) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise PoolError(f"{str(path)!r} is not UTF-8 text: {error}") from error
