"""The memory as a JSON file: to look at, and to begin another run with.

One object: ``format``, ``version``, and ``records``, a list in which every record holds its ``task`` (with skill,
setting, lineage and hint), the ``plays`` that were kept, by column (with seeds and policy versions), ``num_plays`` and
``staleness``; and for readers what follows from these: ``id``, ``program`` (of a program its digest), ``win_rate``
(share won of the plays without the hint), ``mean_return``, signed ``regret`` and ``regret_error``, ``policy_version``
of the last play, ``score`` and ``score_error``. What is unknown is ``null``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from spade_gym.curriculum.finite import whole_number
from spade_gym.curriculum.gates import Gate
from spade_gym.curriculum.memory import Memory, Record
from spade_gym.curriculum.outcomes import Outcomes
from spade_gym.curriculum.task import Outcome, Task
from spade_gym.curriculum.views import summary
from spade_gym.errors import SpadeError

_FORMAT, _VERSION = "spade-gym memory", 1
_COLUMNS = tuple(item.name for item in fields(Outcomes))


class MemoryFileError(SpadeError):
    """A file that is no exported memory, is malformed, or was written by a newer version."""


def export_memory(memory: Memory, path: Path | str) -> None:
    """Write a memory as JSON; an existing file is replaced in one step.

    Args:
        memory: The memory; scores are those of its last ``rescore``.
        path: The file.
    """
    scores, errors = memory.scores, memory.standard_errors
    records = [
        {
            **_record(memory.record(int(slot)), int(staleness)),
            "score": _number(scores[i]), "score_error": _number(errors[i]),
        }
        for i, (slot, staleness) in enumerate(zip(memory.slots(), memory.staleness, strict=True))
    ]  # fmt: skip
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


def _record(record: Record, staleness: int) -> dict[str, Any]:
    task, plays = record.task, record.log.state_dict()
    found = summary(record, staleness=staleness)
    return {
        "task": task.to_json(),
        "id": task.id,
        "program": task.value.get("program") if task.kind == "program" else None,
        "num_plays": found.num_plays,
        "mean_return": None if found.wins is None else found.wins.mean_return,
        "win_rate": None if found.wins is None else found.wins.share,
        "regret": None if found.regret is None else found.regret.value,
        "regret_error": None if found.regret is None else found.regret.standard_error,
        "policy_version": found.policy_version,
        "staleness": staleness,
        "plays": {name: plays[name] for name in _COLUMNS},
    }


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def import_memory(memory: Memory, path: Path | str, *, now: int, gates: Iterable[Gate] = ()) -> int:
    """Take in the records of an exported memory, in its order; what is there already stays as it is.

    A memory with less room than records keeps what its eviction keeps. Windows of the plays are counted backwards
    from -1: they were before everything that is played from now on.

    Args:
        memory: Takes them in; give it to a curriculum before the first ask, or else save the state afterwards.
        path: The file.
        now: Number of the present ask.
        gates: Keep tasks out, as of the curriculum that goes on with the memory.

    Returns:
        How many records were taken in.

    Raises:
        MemoryFileError: The file cannot be read; the memory is then unchanged.
    """
    found = [_parsed(data, index, path) for index, data in enumerate(_read(path))]
    gates, added = tuple(gates), 0
    for item in found:
        refused = item.task.id in memory or any(gate.refuse(item.task, memory) is not None for gate in gates)
        if not refused:
            slot = memory.add(item.task, now=now).slot
            for outcome, hinted, window in item.plays:
                memory.played(slot, outcome, "hint" if hinted else "plain", window=window)
            memory.restore(slot, num_plays=item.num_plays, staleness=item.staleness)
            added += 1
    return added


class _Parsed(NamedTuple):
    task: Task
    plays: list[tuple[Outcome, bool, int]]
    num_plays: int
    staleness: int


def _parsed(data: Any, index: int, path: Path | str) -> _Parsed:
    task, plays = _task(data, index, path), _plays(data, index, path)
    counts = {name: data.get(name) for name in ("num_plays", "staleness")}
    for (name, value), least in zip(counts.items(), (len(plays), 0), strict=True):
        try:
            whole_number(name, value, least=least)
        except ValueError as error:
            raise MemoryFileError(f"{path}: record {index} is malformed: {error}") from error
    return _Parsed(task, plays, counts["num_plays"], counts["staleness"])


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
        last = max(plays["windows"], default=0)
        return [
            (
                Outcome(0, int(seed), float(total), bool(won), int(length), value=value, policy_version=int(version)),
                bool(hinted),
                int(window) - last - 1,
            )
            for total, won, hinted, seed, window, length, value, version in zip(
                *(plays[name] for name in _COLUMNS), strict=True
            )
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise MemoryFileError(f"{path}: the plays of record {index} are malformed: {error}") from error
