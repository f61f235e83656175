"""What a trajectory is worth beside the others of its group."""

from __future__ import annotations

from collections.abc import Sequence

from spade_gym.curriculum.finite import column

_EPSILON = 1e-8


def group_advantages(rewards: Sequence[float], *, std: bool = True) -> tuple[float, ...]:
    """Return (r − mean) / (population standard deviation + 1e-8) of each reward of a group.

    Range: their sum is 0; all are 0 where all rewards are equal. Without ``std``: r − mean.

    Args:
        rewards: At least one, finite.
        std: Whether to divide by the standard deviation.

    Source: method, section 6 (GRPO; without ``std``: Dr. GRPO, arXiv:2503.20783).
    """
    values = column("rewards", rewards)
    if not len(values) or (values == values[0]).all():
        return (0.0,) * len(values)
    centred = values - values.mean()
    return tuple(float(value) for value in (centred / (values.std() + _EPSILON) if std else centred))
