"""How much better can a task be played than it is? Regret from the returns of several agents on one task."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from spade_gym.curriculum.finite import column
from spade_gym.curriculum.score import Score, Unknown


def population_regret(returns: Sequence[npt.ArrayLike]) -> Score | Unknown:
    """Regret of the average agent against the best.

    Formula: max over agents of their mean return − mean over agents of their mean return. Range: [0, r] for
    returns in a range of length r. Standard error: none (the maximum of noisy means is biased upwards; play more).

    Args:
        returns: For each agent, (n,) returns of its plays of the task.

    Returns:
        The score, or unknown with fewer than two agents or an agent without plays.

    Raises:
        ValueError: A return is not finite.

    Source: Dennis et al. 2020 (PAIRED), flexible regret of a population, section 5.
    """
    columns = [column(f"returns of agent {i}", values) for i, values in enumerate(returns)]
    total = sum(len(values) for values in columns)
    if len(columns) < 2:
        return Unknown(f"population regret needs two agents, there are {len(columns)}", total)
    idle = [i for i, values in enumerate(columns) if not len(values)]
    if idle:
        return Unknown(f"agent {idle[0]} has no plays", total)
    means = np.array([values.mean() for values in columns])
    return Score(float(means.max() - means.mean()), None, total)


def paired_agents_regret(
    antagonist: npt.ArrayLike, protagonist: npt.ArrayLike, *, best: Literal["max", "mean"] = "max"
) -> Score | Unknown:
    """PAIRED's regret: antagonist minus protagonist.

    Formula: max (or mean) of the antagonist's returns − mean of the protagonist's. Range: [−r, r] for returns in a
    range of length r; negative where the protagonist is the better one. Standard error: Welch's for ``mean``
    with two plays each, else none.

    Args:
        antagonist: (n,) returns of the antagonist's plays.
        protagonist: (k,) returns of the protagonist's plays.
        best: ``max`` as in the paper's algorithm 1, or ``mean`` as in its definition of regret.

    Returns:
        The score, or unknown where an agent has no plays.

    Raises:
        ValueError: A return is not finite, or ``best`` is unknown.

    Source: Dennis et al. 2020 (PAIRED), section 4 and algorithm 1.
    """
    if best not in ("max", "mean"):
        raise ValueError(f"best must be 'max' or 'mean', got {best!r}")
    a, b = column("returns of the antagonist", antagonist), column("returns of the protagonist", protagonist)
    if not len(a) or not len(b):
        return Unknown(f"the {'protagonist' if len(a) else 'antagonist'} has no plays", len(a) + len(b))
    value = float((a.max() if best == "max" else a.mean()) - b.mean())
    error = None
    if best == "mean" and min(len(a), len(b)) > 1:
        error = math.sqrt(float(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b)))
    return Score(value, error, len(a) + len(b))
