"""The memory as a JSON file: to look at, and to begin another run with.

One object: ``format``, ``version``, and ``records``, a list in which every record holds its ``task`` (with lineage
and hint), the ``plays`` that were kept, by column, and for readers what follows from them: ``num_plays``,
``mean_return``, ``win_rate`` (share of plays without the hint that were won), ``score`` and its ``score_error``.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from spade_gym.curriculum.memory import Memory, Record
from spade_gym.curriculum.task import Outcome, Task
from spade_gym.errors import SpadeError

_FORMAT, _VERSION = "spade-gym memory", 1


class MemoryFileError(SpadeError):
    """A file that is no exported memory, is malformed, or was written by a newer version."""


def export_memory(memory: Memory, path: Path | str) -> None:
    """Write a memory as JSON; an existing file is replaced in one step.

    Args:
        memory: The memory; scores are those of its last ``rescore``.
        path: The file.
    """
    slots = [int(slot) for slot in memory.slots()]
    scores, errors = memory.scores, memory.standard_errors
    records = [
        {**_record(memory.record(slot)), "score": _number(scores[i]), "score_error": _number(errors[i])}
        for i, slot in enumerate(slots)
    ]
    write_json(path, {"format": _FORMAT, "version": _VERSION, "records": records})


def write_json(path: Path | str, data: object) -> None:
    """Write a JSON file that is whole or absent, also when the process is killed meanwhile."""
    path = Path(path)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with draft.open("w", encoding="utf-8") as file:
        json.dump(data, file, allow_nan=False)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def _record(record: Record) -> dict[str, Any]:
    plays = record.log.outcomes()
    plain = plays.plain
    return {
        "task": record.task.to_json(),
        "id": record.task.id,
        "num_plays": record.log.num_plays,
        "mean_return": float(plain.returns.mean()) if len(plain) else None,
        "win_rate": float(plain.wins.mean()) if len(plain) else None,
        "plays": record.log.state_dict(),
    }


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def import_memory(memory: Memory, path: Path | str, *, now: int) -> int:
    """Take in the records of an exported memory, in its order; what is there already stays as it is.

    A memory with less room than records keeps what its eviction keeps. Windows of the plays are counted backwards
    from -1: they were before everything that is played from now on.

    Args:
        memory: Takes them in; give it to a curriculum before the first ask, or else save the state afterwards.
        path: The file.
        now: Number of the present ask.

    Returns:
        How many records were new.

    Raises:
        MemoryFileError: The file cannot be read; the memory is then unchanged.
    """
    found = [(_task(data, index, path), _plays(data, index, path)) for index, data in enumerate(_read(path))]
    added = 0
    for task, plays in found:
        if task.id not in memory:
            slot = memory.add(task, now=now).slot
            for outcome, hinted, window in plays:
                memory.played(slot, outcome, "hint" if hinted else "plain", window=window)
            added += 1
    return added


def _read(path: Path | str) -> list[Any]:
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise MemoryFileError(f"{path} cannot be read as JSON: {error}") from error
    if not isinstance(data, dict) or data.get("format") != _FORMAT or not isinstance(data.get("records"), list):
        raise MemoryFileError(f"{path} is no exported memory: it has no 'format': {_FORMAT!r} with a list 'records'")
    if data.get("version") != _VERSION:
        raise MemoryFileError(f"{path} has version {data.get('version')!r}; this spade-gym reads version {_VERSION}")
    records: list[Any] = data["records"]
    return records


def _task(data: Any, index: int, path: Path | str) -> Task:
    try:
        task = Task.from_json(data["task"])
        assert task.id
    except (KeyError, TypeError, ValueError) as error:
        raise MemoryFileError(f"{path}: the task of record {index} is malformed: {error}") from error
    return task


def _plays(data: Any, index: int, path: Path | str) -> list[tuple[Outcome, bool, int]]:
    try:
        plays = data["plays"]
        names = ("returns", "wins", "hinted", "seeds", "windows", "lengths", "values")
        last = max(plays["windows"], default=0)
        return [
            (Outcome(0, int(seed), float(total), bool(won), int(length), value=value), bool(hinted), window - last - 1)
            for total, won, hinted, seed, window, length, value in zip(*(plays[name] for name in names), strict=True)
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise MemoryFileError(f"{path}: the plays of record {index} are malformed: {error}") from error
