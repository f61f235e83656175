"""What a designer is shown of the memory: tasks worth imitating, tasks that taught nothing, and the numbers behind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from spade_gym.curriculum.memory import Memory, Record
from spade_gym.curriculum.regret_scorers import hint_regret
from spade_gym.curriculum.score import Score
from spade_gym.curriculum.task import Task
from spade_gym.curriculum.win_rates import WinRate, win_rate

#: Method, section 2.
POSITIVE_LOW, POSITIVE_HIGH, NUM_CANDIDATES, NUM_POSITIVES = 0.15, 0.85, 10, 2
MASTERED, INTRACTABLE = 0.9, 0.1


class Summary(NamedTuple):
    """One record in numbers.

    Attributes:
        task: The task, with its lineage and hint.
        wins: Win rate of its plays without the hint; ``None`` without such plays.
        regret: Signed hint regret, paired by seed where both arms share seeds; ``None`` where an arm is missing.
        seeds: Instance seeds of the plays that were kept, each once, ascending.
        num_plays: All valid plays ever.
        policy_version: Of the player in the last play; ``None`` without plays.
        staleness: Asks since it was last handed out.
    """

    task: Task
    wins: WinRate | None
    regret: Score | None
    seeds: tuple[int, ...]
    num_plays: int
    policy_version: int | None
    staleness: int


class Examples(NamedTuple):
    """What goes into a designer's request.

    Attributes:
        positives: Tasks of the skill with a win rate in [0.15, 0.85] and high regret.
        negative: A task that was too easy or too hard; ``None`` where there is none.
    """

    positives: tuple[Summary, ...]
    negative: Summary | None


def summaries(memory: Memory, *, now: int, skill: str | None = None) -> list[Summary]:
    """Return every record in numbers, by slot; only those of a skill where one is given."""
    found = []
    for slot, asked in zip(memory.slots(), memory.last_asked, strict=True):
        record = memory.record(int(slot))
        if skill is None or record.task.skill == skill:
            found.append(summary(record, staleness=now - int(asked)))
    return found


def summary(record: Record, *, staleness: int) -> Summary:
    """Return one record in numbers."""
    outcomes = record.log.outcomes()
    wins = win_rate(outcomes)
    regret = hint_regret(outcomes, pairing="paired")
    if not isinstance(regret, Score):
        regret = hint_regret(outcomes, pairing="plain")
    return Summary(
        record.task,
        wins if isinstance(wins, WinRate) else None,
        regret if isinstance(regret, Score) else None,
        tuple(np.unique(outcomes.seeds).tolist()),
        record.log.num_plays,
        int(outcomes.policy_versions[-1]) if len(outcomes) else None,
        staleness,
    )


def high_regret(found: Sequence[Summary]) -> list[Summary]:
    """Return tasks with a win rate in [0.15, 0.85], highest regret first; unknown regrets are left out."""
    known = [item for item in found if item.regret is not None and item.wins is not None]
    within = [item for item in known if item.wins and POSITIVE_LOW <= item.wins.share <= POSITIVE_HIGH]
    return sorted(within, key=lambda item: -item.regret.value if item.regret else 0.0)


def mastered(found: Sequence[Summary]) -> list[Summary]:
    """Return tasks won in more than 90 % of plays ("too easy"), easiest first."""
    easy = [item for item in found if item.wins is not None and item.wins.share > MASTERED]
    return sorted(easy, key=lambda item: -item.wins.share if item.wins else 0.0)


def intractable(found: Sequence[Summary]) -> list[Summary]:
    """Return tasks won in less than 10 % of plays ("too hard"), hardest first."""
    hard = [item for item in found if item.wins is not None and item.wins.share < INTRACTABLE]
    return sorted(hard, key=lambda item: item.wins.share if item.wins else 0.0)


def designer_examples(memory: Memory, *, now: int, skill: str, rng: np.random.Generator) -> Examples:
    """Draw what a request for a skill is grounded in: two of the ten tasks of highest regret, and one that failed.

    Source: method, section 2.
    """
    found = summaries(memory, now=now, skill=skill)
    best = high_regret(found)[:NUM_CANDIDATES]
    chosen = sorted(rng.permutation(len(best))[:NUM_POSITIVES])
    failed = mastered(found) + intractable(found)
    negative = failed[int(rng.integers(len(failed)))] if failed else None
    return Examples(tuple(best[int(index)] for index in chosen), negative)
