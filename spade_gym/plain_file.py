"""How a file that anybody may have put there is opened: a regular file, of bounded size, behind no link.

A path may lead to a named pipe (reading hangs), a device (reading never ends), a folder, or by a symbolic link out
of the folder that was meant. It is no defence against somebody who changes the folder *while* it is read.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

from spade_gym.errors import PoolError


def as_path(name: str, value: Any) -> Path:
    """Return a path that a caller gave under a name.

    Raises:
        TypeError: It is no text or path.
        PoolError: It is empty, which would mean the current folder, or holds a zero character.
    """
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"{name} must be a path as text or pathlib.Path, got {type(value).__name__}: {shown(value)}")
    path = os.fspath(value)
    if not isinstance(path, str):
        raise TypeError(f"{name} must be a path as text or pathlib.Path, got one of bytes: {shown(path)}")
    if not path:
        raise PoolError(f"{name} is empty; give a path ('.' is the current folder)")
    if "\0" in path:
        raise PoolError(f"{name} holds a zero character, which no path may: {shown(path)}")
    return Path(path)


def shown(value: Any, *, limit: int = 80) -> str:
    """Return a value as an error message shows it: on one line, shortened, whatever it is."""
    try:
        text = repr(value)
    except Exception:  # a number of too many digits, nesting without end, a foreign object
        return f"a value of the type {type(value).__name__} that is too large to show"
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


def open_plain(path: Path, *, follow: bool = False) -> BinaryIO:
    """Open a regular file for reading, without waiting and without following a symbolic link.

    Args:
        path: The file.
        follow: Follow symbolic links (for files of installed packages, which some installers link, and for a file
            that a person named).

    Raises:
        PoolError: It is missing, a link, no regular file or unreadable.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOCTTY", 0)
    if not follow:
        if os.path.islink(path):
            raise PoolError(f"{str(path)!r} is a symbolic link; links are not followed: {_instead(path)}")
        flags |= getattr(os, "O_NOFOLLOW", 0)
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # opening a device may already have an effect
            raise PoolError(f"{str(path)!r} is no regular file but {_kind(os.stat(path).st_mode)}")
        descriptor = os.open(path, flags)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise PoolError(f"{str(path)!r} cannot be read: {reason}") from error
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    raise PoolError(f"{str(path)!r} is no regular file")


def read_file(path: Path, *, max_bytes: int, follow: bool = False) -> bytes:
    """Read a regular file of bounded size, without following a symbolic link.

    Args:
        path: The file.
        max_bytes: Largest size that is read.
        follow: Follow symbolic links; see :func:`open_plain`.

    Raises:
        PoolError: It is missing, a link, no regular file, too large or unreadable.
    """
    with open_plain(path, follow=follow) as file:
        try:
            data = file.read(max_bytes + 1)
        except OSError as error:
            raise PoolError(f"{str(path)!r} cannot be read: {error}") from error
    if len(data) > max_bytes:
        raise PoolError(f"{str(path)!r} is larger than the {max_bytes} bytes that are allowed for it")
    return data


def read_text(path: Path, *, max_bytes: int, follow: bool = False) -> str:
    """Read a regular file of bounded size as UTF-8 text; see :func:`read_file`.

    Raises:
        PoolError: It cannot be read, or is no UTF-8 text.
    """
    try:
        return read_file(path, max_bytes=max_bytes, follow=follow).decode("utf-8")
    except UnicodeDecodeError as error:
        raise PoolError(f"{str(path)!r} is not UTF-8 text: {error}") from error


def _instead(path: Path) -> str:
    """Say what to do about a link."""
    target = os.path.realpath(path)
    if os.path.isfile(target):
        return f"name the file that it leads to, {shown(target, limit=300)}, or put the file itself there"
    return "put the file itself there"


def _kind(mode: int) -> str:
    kinds = (
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a named pipe"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
        (stat.S_ISSOCK, "a socket"),
    )
    return next((word for test, word in kinds if test(mode)), "something else")
