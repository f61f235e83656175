"""What is an episode worth? Its return, from the rewards of its steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from spade_gym.curriculum.finite import column

#: ``sum``: all rewards count. ``last``: the last step's reward if the episode terminated, else 0, as released.
RewardRule = Literal["sum", "last"]


def episode_return(rewards: Sequence[float], *, terminated: bool, rule: RewardRule = "sum") -> float:
    """Return the episode's return, clipped to [-1, 1]; 0 of an episode without steps.

    Args:
        rewards: Reward of each step.
        terminated: Whether the task ended, rather than was cut off.
        rule: ``sum`` (the default), or ``last`` (imported pools that say so, and the ``paper-*`` recipes), which
            pays nothing when the episode was truncated.

    Raises:
        ValueError: A reward is not finite (a fault of the program, never a return), or the rule is unknown.

    Source: method, section 6.
    """
    values = column("rewards", rewards)
    if rule == "sum":
        total = float(values.sum())
    elif rule == "last":
        total = float(values[-1]) if terminated and len(values) else 0.0
    else:
        raise ValueError(f"rule must be 'sum' or 'last', got {rule!r}")
    return min(1.0, max(-1.0, total))
