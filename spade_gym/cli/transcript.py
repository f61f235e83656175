"""The record of a play: JSON lines, each written at once, so that an interrupted play is kept too."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from spade_gym.cli.check_report import plain
from spade_gym.errors import SpadeError


class Transcript:
    """An open transcript file.

    The lines are objects with a key ``event``: ``start`` (name, digest, seed, …), ``reset`` (observation),
    ``step`` (turn, typed, action, observation, reward, terminated, truncated), ``hint`` and ``end`` (outcome,
    return, turns).
    """

    def __init__(self, path: Path) -> None:
        """Create the file, or empty it.

        Raises:
            SpadeError: It cannot be written.
        """
        self.path = path
        try:
            self._file = open(path, "w", encoding="utf-8", newline="\n")  # noqa: SIM115 - closed by __exit__
        except OSError as error:
            raise SpadeError(f"the transcript cannot be written: {error}; name another file by --transcript") from error

    def write(self, event: str, **values: Any) -> None:
        """Append one line."""
        self._file.write(json.dumps({"event": event, **plain(values)}, ensure_ascii=True) + "\n")
        self._file.flush()

    def __enter__(self) -> Transcript:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()


def default_path(name: str, seed: int) -> Path:
    """Return a fresh file name in the current folder: ``spade-OddCoin-7-20260102-030405.jsonl``."""
    stem = f"spade-{name}-{seed}-{time.strftime('%Y%m%d-%H%M%S')}"
    path, number = Path(f"{stem}.jsonl"), 1
    while path.exists():
        number += 1
        path = Path(f"{stem}-{number}.jsonl")
    return path
