"""Where completions that were made before are kept, and how they are read: a folder of replies, JSONL, or a run."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from spade_gym.errors import PoolError
from spade_gym.models.base import Completion, ModelError
from spade_gym.models.sample import Sample
from spade_gym.plain_file import read_text

_MAX_REPLY_BYTES, _MAX_JSONL_BYTES = 4 << 20, 1 << 30
_RUN = "run.db"
_LINE = msgspec.json.Decoder(Completion)


class _Turn(msgspec.Struct):
    """Of a turn in ``run.db`` (``rollout/play.py``), what a model said."""

    completion: str
    action: str | None


_completion_of = msgspec.msgpack.Decoder(Completion).decode
_transcript_of = msgspec.msgpack.Decoder(tuple[list[_Turn], str]).decode
_samples_of = msgspec.msgpack.Decoder(list[Sample]).decode


class _ReplyRow(msgspec.Struct, array_like=True):
    key: str
    text: str | None
    error: str | None
    completion: bytes | None


class _PlayRow(msgspec.Struct, array_like=True):
    key: str
    ended: str | None
    transcript: bytes
    samples: bytes


def read_recording(path: Path) -> dict[str, Completion]:
    """Read completions by the keys of their requests, in the order in which they are kept.

    Args:
        path: A folder of ``.md`` replies (the key is the file's path in it, without the ending), a JSONL file that
            ``append_recording`` wrote, a ``run.db``, or the folder of a run. Of a run's plays the texts are known, and
            the ids where they were kept for training.

    Raises:
        ModelError: It is missing, empty or damaged.
    """
    if path.is_dir() and (path / _RUN).is_file():
        path = path / _RUN
    try:
        if path.is_dir():
            completions = _read_folder(path)
        elif path.suffix == ".db":
            completions = _read_run(path)
        else:
            completions = _read_lines(path)
    except PoolError as error:
        raise ModelError(f"the recording {str(path)!r} cannot be read: {error}") from error
    if not completions:
        raise ModelError(f"the recording {str(path)!r} is empty: it needs .md replies, lines of JSON, or a {_RUN}")
    return completions


def append_recording(path: Path, completions: Iterable[Completion]) -> None:
    """Write completions behind those that a JSONL file holds."""
    with open(path, "ab") as file:
        for completion in completions:
            file.write(msgspec.json.encode(completion) + b"\n")


def _read_folder(folder: Path) -> dict[str, Completion]:
    found: dict[str, Completion] = {}
    for inner, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            if name.endswith(".md"):
                file = Path(inner) / name
                key = file.relative_to(folder).with_suffix("").as_posix()
                found[key] = Completion(key, read_text(file, max_bytes=_MAX_REPLY_BYTES), "stop")
    return dict(sorted(found.items()))


def _read_lines(path: Path) -> dict[str, Completion]:
    found: dict[str, Completion] = {}
    for number, line in enumerate(read_text(path, max_bytes=_MAX_JSONL_BYTES).split("\n"), 1):
        if not line.strip():
            continue
        try:
            completion = _LINE.decode(line)
        except (msgspec.DecodeError, ModelError) as error:
            raise ModelError(f"{str(path)!r}, line {number} is no completion: {error}") from error
        if completion.key in found:
            raise ModelError(f"{str(path)!r}, line {number} repeats the key {completion.key!r}")
        found[completion.key] = completion
    return found


def _read_run(path: Path) -> dict[str, Completion]:
    found: dict[str, Completion] = {}
    try:
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            for row in database.execute("SELECT key, text, error, completion FROM replies ORDER BY key"):
                reply = msgspec.convert(row, _ReplyRow)
                found[reply.key] = _completion_of(reply.completion) if reply.completion else _reply(reply)
            for row in database.execute("SELECT key, ended, transcript, samples FROM plays ORDER BY key"):
                found.update((said.key, said) for said in _turns(msgspec.convert(row, _PlayRow)))
        finally:
            database.close()
    except (sqlite3.Error, msgspec.DecodeError, ModelError) as error:
        raise ModelError(f"{str(path)!r} is no {_RUN} that this version can read: {error}") from error
    return found


def _reply(row: _ReplyRow) -> Completion:
    return Completion(row.key, row.text or "", "error" if row.error else "stop", error=row.error or "")


def _turns(row: _PlayRow) -> list[Completion]:
    """Return what a model said in a play; the request of turn n has the key ``<play>/<n>``."""
    turns, _ = _transcript_of(row.transcript)
    parts = [part for sample in _samples_of(row.samples) for part in _sampled(sample)]
    said: list[Completion] = []
    for number, turn in enumerate(turns):
        cut = row.ended == "cut" and number == len(turns) - 1
        details: dict[str, Any] = parts[number] if len(parts) == len(turns) else {}
        said.append(Completion(f"{row.key}/{number}", turn.completion, "length" if cut else "stop", **details))
    return said


def _sampled(sample: Sample) -> list[dict[str, Any]]:
    """Take a sample apart into its completions: tokens under the mask, with others between any two of them."""
    parts, begin = [], 0
    versions = iter(sample.policy_versions)
    mask: Sequence[int] = (*sample.mask, 0)
    for place, (before, here) in enumerate(zip((0, *mask), mask, strict=False)):
        if here and not before:
            begin = place
        elif before and not here:
            part = slice(begin, place)
            parts.append(
                {
                    "ids": sample.ids[part],
                    "logprobs": sample.logprobs[part],
                    "kept_logprobs": sample.kept_logprobs[part],
                    "prompt_tokens": begin,
                    "completion_tokens": place - begin,
                    "policy_version": next(versions, 0),
                }
            )
    return parts
