"""Whom to play next, when plays are dear and only the best few tasks matter?

Two ways to spend a budget of plays (or of pairs of plays) on finding the ``keep`` tasks with the highest values.
Both are functions of running statistics: ask one for a round, play what it says, call it again.

Arrays may have leading axes: the last one runs over the tasks of a pool, pools are independent.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spade_gym.curriculum.finite import at_least, finite

_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]


class Allocation(NamedTuple):
    """One round of plays.

    Attributes:
        alive: (..., m) tasks still in the race.
        extra: (..., m) plays to spend on each now; 0 everywhere when the race is over.
    """

    alive: _Bools
    extra: _Ints


def halving_sizes(num_tasks: int, keep: int) -> tuple[int, ...]:
    """Return how many tasks are alive in each round of sequential halving: 24, 12, 6 for the best 3 of 24.

    Raises:
        ValueError: ``keep`` is not from 1 to ``num_tasks``.
    """
    if not 1 <= keep <= num_tasks:
        raise ValueError(f"keep must be from 1 to the number of tasks ({num_tasks}), got {keep}")
    sizes = [num_tasks]
    while (half := -(-sizes[-1] // 2)) > keep:
        sizes.append(half)
    return tuple(sizes)


def sequential_halving(
    values: npt.ArrayLike, alive: npt.ArrayLike, *, round_index: int, budget: int, keep: int
) -> Allocation:
    """Spend an equal part of the budget in each round, on the better half of the last round's tasks.

    After the last round the best ``keep`` of those alive are the answer. Statistics of all rounds are kept.

    Args:
        values: (..., m) running estimates; of no account in round 0.
        alive: (..., m) tasks of the last round; all before round 0.
        round_index: From 0 to ``len(halving_sizes(m, keep)) - 1``; later rounds get no plays.
        budget: Plays for all rounds together.
        keep: Number of best tasks wanted.

    Returns:
        Who goes on, and this round's plays: equal to one play, what is left over goes to the best. The budget is
        spent to the last play.

    Raises:
        ValueError: A value is not finite, or a number is out of range.

    Source: Karnin, Koren and Somekh 2013, algorithm 1.
    """
    estimates, running = finite("values", values), np.asarray(alive, dtype=np.bool_)
    at_least("round_index", round_index, 0)
    at_least("budget", budget, 0)
    sizes = halving_sizes(estimates.shape[-1], keep)
    if round_index >= len(sizes):
        return Allocation(running, np.zeros(estimates.shape, dtype=np.int64))
    size = sizes[round_index]
    ranks = _ranks(np.where(running, estimates, -np.inf))
    survivors = ranks < size
    done = budget * round_index // len(sizes)
    plays = budget * (round_index + 1) // len(sizes) - done
    extra = np.where(survivors, plays // size + (ranks < plays % size), 0)
    return Allocation(survivors, extra.astype(np.int64))


def screening(
    values: npt.ArrayLike,
    errors: npt.ArrayLike,
    alive: npt.ArrayLike,
    *,
    keep: int,
    round_plays: int,
    budget_left: npt.ArrayLike,
    z: float = 1.5,
) -> Allocation:
    """Drop the tasks that are surely not among the best, and play the others once more.

    A task is out when its upper bound, value + z · error, is below the ``keep``-th highest lower bound. The race
    ends when no more than ``keep`` are alive, or the budget is spent.

    Args:
        values: (..., m) running estimates.
        errors: (..., m) their standard errors, from 0 on.
        alive: (..., m) tasks still in the race.
        keep: Number of best tasks wanted.
        round_plays: Plays of each task alive in a round, at least 1.
        budget_left: (...) plays that may still be spent; a last round that it does not cover goes to the highest
            upper bounds.
        z: Width of the bounds in standard errors; smaller drops sooner.

    Raises:
        ValueError: A value is not finite, or a number is out of range.

    Source: Maron and Moore 1994 (races), with bounds for the ``keep`` best.
    """
    estimates, deviations = finite("values", values), finite("errors", errors)
    if (deviations < 0).any():
        raise ValueError(f"errors must not be negative, got {deviations.min():g}")
    at_least("z", z, 0.0)
    at_least("round_plays", round_plays, 1)
    if not 1 <= keep <= estimates.shape[-1]:
        raise ValueError(f"keep must be from 1 to the number of tasks ({estimates.shape[-1]}), got {keep}")
    running = np.asarray(alive, dtype=np.bool_)
    lower = np.sort(np.where(running, estimates - z * deviations, -np.inf), axis=-1)[..., -keep]
    upper = np.where(running, estimates + z * deviations, -np.inf)
    survivors = running & (upper >= lower[..., None])
    is_open = survivors.sum(-1, keepdims=True) > keep
    left = np.asarray(budget_left, dtype=np.int64)[..., None] - _ranks(upper) * round_plays
    extra = np.where(survivors & is_open, np.clip(left, 0, round_plays), 0)
    return Allocation(survivors, extra.astype(np.int64))


def _ranks(values: npt.NDArray[np.float64]) -> _Ints:
    """Rank of each value from the highest (0) on; of equals, the first is the higher."""
    order = np.argsort(-values, axis=-1, kind="stable")
    return np.argsort(order, axis=-1, kind="stable")
