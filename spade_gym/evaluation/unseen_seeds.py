"""Which seeds of instances are kept for evaluation?

Everything that trains draws the seeds of instances from [0, 2**31): the self-play cycle (``selfplay/environment.py``),
curricula, Gymnasium's own environments. Evaluations use seeds from 2**31 to 2**32, so no instance's seed is in both.
(Above 2**32, NumPy's legacy generators, which programs may use, take no seed.)
"""

from __future__ import annotations

import numpy as np

#: Instances of training have seeds below this number, those of evaluation from it on.
FIRST_UNSEEN_SEED = 2**31

_LAST = 2**32
#: Most instances of one program; blocks of several evaluation seeds begin at any number that leaves this room.
MOST_INSTANCES = 2**20
_STREAM = 40


def unseen_seeds(num_instances: int, *, seed: int = 0) -> tuple[int, ...]:
    """Return seeds of instances that training never uses: consecutive numbers in [2**31, 2**32).

    A longer list begins with the shorter one.

    Args:
        num_instances: How many, 0 to ``MOST_INSTANCES``.
        seed: Of the evaluation: 0 begins at ``FIRST_UNSEEN_SEED``, every other one at a number drawn from it.

    Raises:
        ValueError: More are wanted than there is room for, or the seed is negative.
    """
    if not 0 <= num_instances <= MOST_INSTANCES:
        raise ValueError(f"num_instances must be from 0 to {MOST_INSTANCES:,}, got {num_instances!r}")
    if seed < 0:
        raise ValueError(f"the seed of an evaluation must be 0 or positive, got {seed!r}")
    first = FIRST_UNSEEN_SEED
    if seed:
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_STREAM,)))
        first += int(rng.integers(_LAST - FIRST_UNSEEN_SEED - MOST_INSTANCES))
    return tuple(range(first, first + num_instances))
