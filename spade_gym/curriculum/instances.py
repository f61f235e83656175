"""Is a win rate of one half an even task, or a mixture of certain ones?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spade_gym.curriculum.finite import within
from spade_gym.curriculum.outcomes import Outcomes
from spade_gym.curriculum.score import Unknown

MIN_WITHIN_SHARE = 0.5


class Bimodality(NamedTuple):
    """Where a task's win-or-lose variance comes from.

    Attributes:
        within: Mean over instances of p_i (1 − p_i), unbiased: chance in playing one instance.
        between: Variance of p_i over instances, unbiased and not below 0: luck of the draw of an instance.
        within_share: ``within`` / (``within`` + ``between``), in [0, 1]. 1: all instances are alike; 0: each is
            always won or never.
        is_bimodal: ``within_share`` is below the threshold: the win rate says little about any instance.
        num_instances: Instances with two plays or more.
    """

    within: float
    between: float
    within_share: float
    is_bimodal: bool
    num_instances: int


def check_bimodality(outcomes: Outcomes, *, least: float = MIN_WITHIN_SHARE) -> Bimodality | Unknown:
    """Split the variance of a win into that within instances and that between them.

    Half of the instances always won and half never give a win rate of 0.5, and nothing to learn on any of them.

    Formula: over instances with k_i ≥ 2 plays without the hint, within = mean of v_i with
    v_i = k_i/(k_i − 1) · p̂_i (1 − p̂_i), and between = s²(p̂_i) − mean of v_i / k_i, at least 0.

    Args:
        outcomes: Plays of one task, several on each instance seed; hinted ones are left out.
        least: Share within below which the task counts as bimodal, in [0, 1].

    Returns:
        The split, or unknown with fewer than two instances played twice, or when all plays ended alike.

    Raises:
        ValueError: ``least`` is out of range.

    Source: analysis of variance with random effects; issue 3, point 3.
    """
    within("least", least, 0.0, 1.0)
    plays = outcomes.plain
    _, inverse, counts = np.unique(plays.seeds, return_inverse=True, return_counts=True)
    twice = counts >= 2
    num = int(twice.sum())
    if num < 2:
        return Unknown(f"bimodality needs two instances played twice without the hint, there are {num}", len(plays))
    k = counts[twice].astype(np.float64)
    shares = np.bincount(inverse, weights=plays.wins.astype(np.float64))[twice] / k
    spread = k / (k - 1) * shares * (1 - shares)
    inside = float(spread.mean())
    between = max(0.0, float(shares.var(ddof=1) - (spread / k).mean()))
    if inside + between <= 0:
        return Unknown("all plays ended alike", int(k.sum()))
    share = inside / (inside + between)
    return Bimodality(inside, between, share, share < least, num)
