"""How one program lies in a folder, and how it is read and written without trusting what is there.

An entry is a folder that holds ``program.py`` and ``manifest.toml``. A pool may come from anybody, so reading
an entry never leaves its folder (no symbolic links, only regular files; see ``plain_file``), never reads more than
a stated size, and never runs anything.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import time
from pathlib import Path

from spade_gym.errors import ManifestError, PoolError
from spade_gym.programs.program import MAX_MANIFEST_BYTES, MAX_SOURCE_BYTES, Manifest, Program

#: Folders of this prefix are half-written entries; those older than this many seconds are leftovers of a crash.
TEMPORARY_PREFIX = ".tmp-"
TEMPORARY_SECONDS = 3600.0


def read_manifest(folder: Path, *, follow: bool = False) -> tuple[Manifest, str]:
    """Read an entry's manifest and the digest it states, without its source.

    Raises:
        PoolError: The folder is a link, or the manifest is missing, too large or malformed.
    """
    _refuse_link(folder, follow)
    try:
        return Manifest.read(folder, follow_links=follow)
    except ManifestError as error:
        raise PoolError(str(error)) from error


def read_entry(folder: Path, *, follow: bool = False) -> Program:
    """Read an entry and check its digest.

    Raises:
        PoolError: A file is missing, a link, too large or malformed, or the digest does not match.
    """
    _refuse_link(folder, follow)
    try:
        return Program.read(folder, follow_links=follow)
    except ManifestError as error:
        raise PoolError(str(error)) from error


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
    """Write files durably into a fresh temporary folder of a pool and return the folder.

    Raises:
        OSError: They cannot be written; the folder is removed.
    """
    folder = pool / f"{TEMPORARY_PREFIX}{os.getpid()}-{secrets.token_hex(8)}"
    folder.mkdir()
    try:
        for name, data in files.items():
            with open(folder / name, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        sync_folder(folder)
    except BaseException:  # a full disk, Ctrl-C: nothing half-written stays
        shutil.rmtree(folder, ignore_errors=True)
        raise
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


def _refuse_link(folder: Path, follow: bool) -> None:
    if not follow and os.path.islink(folder):
        raise PoolError(f"{str(folder)!r} is a symbolic link; links are not followed: put the folder itself there")
