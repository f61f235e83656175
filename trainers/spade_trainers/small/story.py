"""What happened in a run of the small model, in numbers: one point an epoch, out of the run's database."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from spade_gym.designer.instances import view_instances
from spade_gym.programs.program import Program
from spade_gym.programs.reply import program_from_source
from spade_gym.selfplay.run_store import RunStore

#: Instances of a program whose answers are counted.
_SEEDS = (0, 1, 2, 3)


class Epoch(NamedTuple):
    """One pool.

    Attributes:
        epoch: Its number.
        programs: Accepted programs by skill.
        length: Mean number of items in an answer: how difficult the designer makes it.
        win_rate: Mean over the programs, of the plays without the hint; ``None`` where unknown.
        in_band: Share of the programs with a win rate within [0.15, 0.85].
        regret: Mean hint regret; ``None`` where unknown.
        taught: Share of the designer's replies with an advantage other than zero.
    """

    epoch: int
    programs: dict[str, int]
    length: float
    win_rate: float | None
    in_band: float | None
    regret: float | None
    taught: float | None


def epochs_of(folder: Path) -> list[Epoch]:
    """Read a run's epochs, in order.

    Args:
        folder: Of the run.

    Raises:
        StoreError: It holds no run.
    """
    with RunStore(folder, read_only=True) as store:
        rows = store.rows(
            "SELECT pools.epoch, pools.skill, pools.digest, programs.source, scores.win_rate, scores.regret, "
            "scores.advantage FROM pools JOIN programs USING (digest) LEFT JOIN scores ON scores.epoch = pools.epoch "
            "AND scores.environment = pools.environment ORDER BY pools.epoch, pools.environment"
        )
    lengths: dict[str, float] = {}
    for row in rows:
        if row["digest"] not in lengths:
            lengths[row["digest"]] = _answer_length(program_from_source(row["source"], name="program"))
    found = []
    for number in sorted({row["epoch"] for row in rows}):
        mine = [row for row in rows if row["epoch"] == number]
        wins = [row["win_rate"] for row in mine if row["win_rate"] is not None]
        found.append(
            Epoch(
                number,
                dict(Counter(row["skill"] for row in mine)),
                float(np.mean([lengths[row["digest"]] for row in mine])),
                _mean(wins),
                _mean([float(0.15 <= win <= 0.85) for win in wins]),
                _mean([row["regret"] for row in mine if row["regret"] is not None]),
                _mean([float(row["advantage"] != 0) for row in mine if row["advantage"] is not None]),
            )
        )
    return found


def measured(folder: Path, file: str) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield what was measured on the suite while a run went on: updates made, and shares won by tier."""
    path = folder / file
    for line in path.read_text().splitlines() if path.is_file() else ():
        row = json.loads(line)
        yield int(row["updates"]), row["tiers"]


def _answer_length(program: Program) -> float:
    """Mean number of words in a program's solutions; a lock's one number counts by its digits."""
    views = view_instances(program, _SEEDS)
    return float(np.mean([sum(len(line.split()) for line in view.solution or ()) for view in views]))


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None
