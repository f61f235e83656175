"""From an order to its tickets: which instance seeds, in which arm, and how many to a ticket."""

from __future__ import annotations

import numpy as np

from spade_gym.curriculum.schedules import Order
from spade_gym.curriculum.task import Arm, Task, Ticket

_SEEDS = 1 << 31


def write_tickets(order: Order, task: Task, rng: np.random.Generator, *, group_size: int = 1) -> list[Ticket]:
    """Return the tickets of an order, not numbered yet; both arms play the same seeds.

    Args:
        order: What is wanted.
        task: Its task.
        rng: Draws the instance seeds.
        group_size: Seeds of each ticket; the plays of an arm are rounded up to whole groups.
    """
    repeats, hint_repeats = (-(-plays // group_size) * group_size for plays in (order.repeats, order.hint_repeats))
    count = max(repeats, hint_repeats)
    if count == 1 and not hint_repeats:
        return [Ticket(0, task, (int(rng.integers(_SEEDS)),), order.arm, order.train)]
    seeds = tuple(rng.integers(_SEEDS, size=count).tolist())
    plans: tuple[tuple[Arm, int, bool], ...] = ((order.arm, repeats, order.train), ("hint", hint_repeats, False))
    return [
        Ticket(0, task, seeds[start : start + group_size], arm, train)
        for arm, plays, train in plans
        for start in range(0, plays, group_size)
    ]
