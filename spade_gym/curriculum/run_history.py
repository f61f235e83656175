"""What was played when in a run, and what it adds up to over time: the numbers behind the picture and the scalars."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from spade_gym.curriculum.journal import Asked, Told
from spade_gym.curriculum.store import FILE_NAME, Store
from spade_gym.curriculum.task import Task
from spade_gym.errors import SpadeError

_Floats = npt.NDArray[np.float64]
_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]

#: Win rates above and below which a task is mastered or intractable (method, section 2), and least plays to say so.
MASTERED, INTRACTABLE, LEAST_PLAYS = 0.9, 0.1, 4
GROUPS = ("mastered", "learnable", "intractable", "few plays")
_RECENT_PLAYS = 16


class History(NamedTuple):
    """The valid plays of a run, oldest first.

    Attributes:
        times: (n,) when: the number of the ticket, or (from a JSON file, which holds no more) of the window.
        unit: ``tickets`` or ``windows``.
        tasks: (n,) place of the task in ``ids``.
        returns: (n,).
        wins: (n,).
        hinted: (n,).
        ids: Names of the tasks, in the order in which they were first played.
        memory: How many records of the memory are mastered, and so on (``GROUPS``), when its state was last saved.
    """

    times: _Ints
    unit: str
    tasks: _Ints
    returns: _Floats
    wins: _Bools
    hinted: _Bools
    ids: tuple[str, ...]
    memory: Mapping[str, int]


class Curves(NamedTuple):
    """Numbers over time, each (k,), NaN where there is nothing to be said.

    Attributes:
        times: End of each stretch of time.
        unit: Of the times.
        num_plays: Valid plays in the stretch.
        win_rate: Share won of the plays without the hint.
        mean_return: Of those.
        regret: Mean return with the hint minus that without, averaged over the tasks that were played both ways.
        num_tasks: Tasks played in the stretch.
        groups: By name (``GROUPS``), how many of those are mastered, and so on, by their last 16 plays then.
    """

    times: _Ints
    unit: str
    num_plays: _Ints
    win_rate: _Floats
    mean_return: _Floats
    regret: _Floats
    num_tasks: _Ints
    groups: Mapping[str, _Ints]

    def scalars(self) -> Iterator[tuple[str, int, float]]:
        """Yield (name, time, value) of everything that is known."""
        names = ("num_plays", "win_rate", "mean_return", "regret", "num_tasks")
        columns = {name: getattr(self, name) for name in names}
        columns |= {f"tasks/{name}": numbers for name, numbers in self.groups.items()}
        for name, numbers in columns.items():
            for time, value in zip(self.times, numbers, strict=True):
                if value == value:
                    yield name, int(time), float(value)


class _Row(NamedTuple):
    time: int
    task: str
    total: float
    won: bool
    hinted: bool


def read_history(path: Path | str) -> History:
    """Read a run.

    Args:
        path: A run's folder, its database, or a JSON file: a curriculum's state, or an exported memory.

    Raises:
        SpadeError: It is none of these, or nothing was played.
    """
    path = Path(path)
    if path.is_dir() or path.name == FILE_NAME:
        rows, records = _stored(path if path.is_dir() else path.parent)
        unit = "tickets"
    else:
        rows, records = _in_json(path)
        unit = "windows"
    if not rows:
        raise SpadeError(f"{path} holds no valid play yet, so there is nothing to show")
    place = {name: number for number, name in enumerate(dict.fromkeys(row.task for row in rows))}
    return History(
        np.array([row.time for row in rows], dtype=np.int64),
        unit,
        np.array([place[row.task] for row in rows], dtype=np.int64),
        np.array([row.total for row in rows], dtype=np.float64),
        np.array([row.won for row in rows], dtype=np.bool_),
        np.array([row.hinted for row in rows], dtype=np.bool_),
        tuple(place),
        _composition(records),
    )


def _stored(folder: Path) -> tuple[list[_Row], list[Any]]:
    tickets, rows = {}, []
    with Store(folder, read_only=True) as store:
        for entry in store.journal():
            if isinstance(entry, Asked) and entry.ticket is not None:
                tickets[entry.ticket.id] = entry.ticket
            elif isinstance(entry, Told) and entry.receipt in ("counted", "late"):
                outcome, ticket = entry.outcome, tickets[entry.outcome.ticket]
                rows.append(_Row(ticket.id, ticket.task.id, outcome.total, outcome.won, ticket.arm == "hint"))
        snapshot = store.snapshot()
    return sorted(rows, key=lambda row: row.time), [] if snapshot is None else snapshot.state["memory"]["records"]


def _in_json(path: Path) -> tuple[list[_Row], list[Any]]:
    rows = []
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        records = data["memory"]["records"] if "memory" in data else data["records"]
        for record in records:
            if record is None:
                continue
            name = Task.from_json(record["task"]).id
            plays = _plays(record)
            columns = (plays[column] for column in ("windows", "returns", "wins", "hinted"))
            for window, total, won, hinted in zip(*columns, strict=True):
                rows.append(_Row(int(window), name, float(total), bool(won), bool(hinted)))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SpadeError(
            f"{path} cannot be read as a run: give a run's folder (with {FILE_NAME}), or a JSON file that is a "
            f"curriculum's state or an exported memory; {type(error).__name__}: {error}"
        ) from error
    return sorted(rows, key=lambda row: row.time), records


def _plays(record: Any) -> Any:
    return record["log"] if "log" in record else record["plays"]


def _composition(records: Sequence[Any]) -> dict[str, int]:
    rates, counts = [], []
    for record in records:
        if record is not None:
            plays = _plays(record)
            won = [w for w, hinted in zip(plays["wins"], plays["hinted"], strict=True) if not hinted][-_RECENT_PLAYS:]
            rates.append(sum(won) / max(1, len(won)))
            counts.append(len(won))
    return {name: int(mask.sum()) for name, mask in _grouped(np.array(rates), np.array(counts)).items()}


def _grouped(rates: _Floats, plays: _Ints) -> dict[str, _Bools]:
    """Return by group which tasks are in it, from their win rates and numbers of plays."""
    enough = plays >= LEAST_PLAYS
    mastered, intractable = enough & (rates > MASTERED), enough & (rates < INTRACTABLE)
    return dict(zip(GROUPS, (mastered, enough & ~mastered & ~intractable, intractable, ~enough), strict=True))


def curves(history: History, *, num_points: int = 60) -> Curves:
    """Add a history up over stretches of time of equal length.

    Args:
        history: Plays.
        num_points: Most stretches.

    Raises:
        ValueError: ``num_points`` is below 1.
    """
    if num_points < 1:
        raise ValueError(f"num_points must be at least 1, got {num_points}")
    first, last = int(history.times[0]), int(history.times[-1])
    count = min(num_points, last - first + 1)
    ends = np.unique(np.linspace(first, last + 1, count + 1).astype(np.int64)[1:])
    cuts = np.searchsorted(history.times, ends)
    starts = np.concatenate(([0], cuts[:-1]))
    stretches = [slice(int(start), int(stop)) for start, stop in zip(starts, cuts, strict=True)]
    plain = [history.returns[part][~history.hinted[part]] for part in stretches]
    won = [history.wins[part][~history.hinted[part]] for part in stretches]
    return Curves(
        ends - 1,
        history.unit,
        np.array([part.stop - part.start for part in stretches], dtype=np.int64),
        np.array([_mean(values) for values in won]),
        np.array([_mean(values) for values in plain]),
        np.array([_regret(history, part) for part in stretches]),
        np.array([len(np.unique(history.tasks[part])) for part in stretches], dtype=np.int64),
        _groups(history, cuts),
    )


def _mean(values: npt.NDArray[Any]) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _regret(history: History, part: slice) -> float:
    tasks, returns, hinted = history.tasks[part], history.returns[part], history.hinted[part]
    both = np.intersect1d(tasks[hinted], tasks[~hinted])
    gaps = [_mean(returns[hinted & (tasks == task)]) - _mean(returns[~hinted & (tasks == task)]) for task in both]
    return _mean(np.array(gaps))


def _groups(history: History, cuts: _Ints) -> dict[str, _Ints]:
    """Count the tasks of each stretch by their recent win rate at its end."""
    size = len(history.ids)
    rates, plays = np.zeros(size), np.zeros(size, dtype=np.int64)
    counts: dict[str, list[int]] = {name: [] for name in GROUPS}
    start = 0
    for cut in cuts.tolist():
        for i in range(start, cut):
            if not history.hinted[i]:
                task = history.tasks[i]
                plays[task] += 1
                rates[task] += (history.wins[i] - rates[task]) / min(int(plays[task]), _RECENT_PLAYS)
        played = np.unique(history.tasks[start:cut])
        for name, mask in _grouped(rates[played], plays[played]).items():
            counts[name].append(int(mask.sum()))
        start = cut
    return {name: np.array(numbers, dtype=np.int64) for name, numbers in counts.items()}
