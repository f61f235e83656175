"""The record of a play: JSON lines, each written at once, so that an interrupted play is kept too."""

from __future__ import annotations

import errno
import json
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from spade_gym.cli.check_report import plain
from spade_gym.errors import SpadeError


class Transcript:
    """An open transcript file.

    The lines are objects with a key ``event``: ``start`` (name, digest, seed, …), ``reset`` (observation),
    ``step`` (turn, typed, action, observation, reward, terminated, truncated), ``hint`` and ``end`` (outcome,
    return, turns).
    """

    def __init__(self, path: Path, *, on_first_step: bool = False) -> None:
        """Create the file, or empty it.

        Args:
            path: The file.
            on_first_step: Create it only when a turn was played; a play without one leaves no file.

        Raises:
            SpadeError: It cannot be written.
        """
        self.path = path
        self._file: BinaryIO | None = None
        self._waiting: list[bytes] = []
        self._is_new = not os.path.lexists(path)
        if not on_first_step:
            self._open()
        elif not os.access(path.parent, os.W_OK):
            raise self._failure(PermissionError("its folder is not writable"))

    @property
    def is_written(self) -> bool:
        """Whether there is a file."""
        return self._file is not None and os.path.lexists(self.path)

    def write(self, event: str, **values: Any) -> None:
        """Append one line.

        Raises:
            SpadeError: It cannot be written; a file without a whole line is removed.
        """
        line = (json.dumps({"event": event, **plain(values)}, ensure_ascii=True) + "\n").encode("ascii")
        self._waiting.append(line)
        if self._file is None and event != "step":
            return
        if self._file is None:
            self._open()
        self._flush()

    def _open(self) -> None:
        try:
            self._file = open(self.path, "wb", buffering=0)  # noqa: SIM115 - closed by __exit__
        except OSError as error:
            raise self._failure(error) from error

    def _flush(self) -> None:
        """Write the lines that wait; each is one write, so a full disk is noticed here and not at the end."""
        if self._file is None or self._file.closed:
            return
        try:
            for line in self._waiting:
                if self._file.write(line) != len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            self._file.close()
            if self._is_new and os.path.isfile(self.path) and os.path.getsize(self.path) == 0:
                self.path.unlink(missing_ok=True)
            raise self._failure(error) from error
        self._waiting.clear()

    def _failure(self, error: OSError) -> SpadeError:
        reason = error.strerror or error
        return SpadeError(
            f"the transcript {str(self.path)!r} cannot be written: {reason}; name another file by --transcript"
        )

    def __enter__(self) -> Transcript:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()


def default_path(name: str, seed: int) -> Path:
    """Return a fresh file name in the current folder: ``spade-OddCoin-7-20260102-030405.jsonl``."""
    stem = f"spade-{name}-{seed}-{time.strftime('%Y%m%d-%H%M%S')}"
    path, number = Path(f"{stem}.jsonl"), 1
    while os.path.lexists(path):
        number += 1
        path = Path(f"{stem}-{number}.jsonl")
    return path
