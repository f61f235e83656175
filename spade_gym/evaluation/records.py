"""An evaluation on disk: ``manifest.json`` and ``results.jsonl`` in its folder.

Each result is one line, written before the next one is asked about, so a process that is killed loses at most the line
that it was writing; that one is dropped, and its order is done again.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from spade_gym.curriculum.writer_lock import StoreError, take_lock
from spade_gym.evaluation.suite import Result
from spade_gym.plain_file import open_plain, read_text, shown
from spade_gym.selfplay.run_database import check_files

RESULTS, MANIFEST = "results.jsonl", "manifest.json"
_MAX_MANIFEST_BYTES = 1 << 26
#: What must be the same when an evaluation goes on.
_COMPARED = ("settings", "suite", "prompts", "model", "base")


class _Line(msgspec.Struct, omit_defaults=True):
    """A line: a result of one arm, or what its model said about itself."""

    arm: str
    result: Result | None = None
    model: dict[str, Any] | None = None


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Line).decode


class Records:
    """What is known so far.

    Args:
        folder: The evaluation's; ``None`` keeps everything in memory.

    Raises:
        StoreError: Another process writes to it, it is damaged, or it is not an evaluation's.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._lock: sqlite3.Connection | None = None
        self._descriptor: int | None = None
        self._results: dict[str, dict[tuple[int, int], Result]] = {}
        self._models: dict[str, dict[str, Any]] = {}
        if folder is None:
            return
        self._path = folder / RESULTS
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{folder} cannot be made: {error.strerror}; name another folder") from error
        check_files(self._path)
        self._lock = take_lock(self._path)
        try:
            self._read()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Records:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give up the lock."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    # ---- the manifest

    def kept_manifest(self) -> dict[str, Any] | None:
        """The manifest of an evaluation that was begun; ``None`` before.

        Raises:
            StoreError: It cannot be read, or there are results without one.
        """
        if self.folder is None:
            return None
        path = self.folder / MANIFEST
        if not os.path.lexists(path):
            if self._results or self._models:
                raise StoreError(f"{self.folder} holds results and no {MANIFEST}; evaluate into another folder")
            return None
        try:
            kept = json.loads(read_text(path, max_bytes=_MAX_MANIFEST_BYTES))
        except (ValueError, RecursionError) as error:
            raise StoreError(f"{path} is damaged: {error}; evaluate into another folder") from error
        if not isinstance(kept, dict) or any(name not in kept for name in _COMPARED):
            raise StoreError(f"{path} is no manifest of an evaluation; evaluate into another folder")
        return kept

    def begin(self, manifest: Mapping[str, Any]) -> None:
        """Write the manifest, or compare it with the one that is there.

        Raises:
            StoreError: They differ; the message names in what.
        """
        kept = self.kept_manifest()
        if kept is not None:
            changes = [
                f"{name} was {shown(old)} and is {shown(new)}"
                for part in _COMPARED
                for name, old, new in _differences(part, kept[part], manifest[part])
            ]
            if changes:
                raise StoreError(
                    f"the evaluation in {self.folder} was begun with other settings: {'; '.join(changes[:8])}. Start "
                    "it with those that it had, or evaluate into another folder"
                )
        elif self.folder is not None:
            text = json.dumps(manifest, indent=2) + "\n"
            descriptor, partial = tempfile.mkstemp(dir=self.folder, prefix="manifest-")
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, self.folder / MANIFEST)

    # ---- results

    def meet(self, arm: str, model: Mapping[str, Any]) -> None:
        """Note what a model says about itself, or compare it with what it said before.

        Raises:
            StoreError: It is another model.
        """
        known = self._models.get(arm)
        if known is None:
            self._models[arm] = dict(model)
            self._append(_Line(arm, model=dict(model)))
        elif known != dict(model):
            raise StoreError(
                f"the results of the {arm} in {self.folder} come from {shown(known)}, and now it is "
                f"{shown(dict(model))}; evaluate into another folder"
            )

    def model(self, arm: str) -> dict[str, Any]:
        """What the model of an arm said about itself; empty before it was opened."""
        return self._models.get(arm, {})

    def add(self, arm: str, result: Result) -> None:
        """Keep a result."""
        self._append(_Line(arm, result))
        self._remember(arm, result)

    def results(self, arm: str) -> dict[tuple[int, int], Result]:
        """Results of an arm by task and sample, without what was said (which stands in the file)."""
        return self._results.get(arm, {})

    def _remember(self, arm: str, result: Result) -> None:
        self._results.setdefault(arm, {})[result.task, result.sample] = dataclasses.replace(result, said=())

    def _append(self, line: _Line) -> None:
        if self.folder is None:
            return
        if self._descriptor is None:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
            self._descriptor = os.open(self._path, flags, 0o644)
        data = _encode(line) + b"\n"
        while data:
            data = data[os.write(self._descriptor, data) :]

    def _read(self) -> None:
        if not os.path.lexists(self._path):
            return
        whole = 0
        with open_plain(self._path) as file:
            for number, text in enumerate(file, 1):
                if not text.endswith(b"\n"):
                    break
                whole += len(text)
                self._take(number, text)
        if whole < os.path.getsize(self._path):
            os.truncate(self._path, whole)

    def _take(self, number: int, text: bytes) -> None:
        try:
            line = _decode(text)
            if line.result is not None:
                _check(line.result)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise StoreError(f"{self._path}, line {number} is damaged: {error}; it was left as it is") from error
        if line.model is not None:
            self._models[line.arm] = line.model
        if line.result is not None:
            self._remember(line.arm, line.result)


def _check(result: Result) -> None:
    """Refuse a result that nobody can have written."""
    if result.task < 0 or result.sample < 0:
        raise ValueError(f"task and sample must be 0 or positive, got {result.task} and {result.sample}")
    if result.score is not None and not (math.isfinite(result.score) and -1 <= result.score <= 1):
        raise ValueError(f"a score must be in [-1, 1], got {result.score!r}")
    if result.right and result.score is None:
        raise ValueError("a result without a score cannot be right")


def _differences(name: str, old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
    """What differs between two JSON values, each with its name."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            yield from _differences(f"{name}.{key}", old.get(key), new.get(key))
    elif old != new:
        yield name, old, new
