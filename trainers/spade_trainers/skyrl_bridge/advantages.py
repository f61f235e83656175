"""How plays are judged in SkyRL, where every play of a batch must have a row.

A play that counts for nothing (a fault of program or model) may not become a reward. Its row is a *stand-in*: two
masked tokens with rewards m + 2 and −2, where m is the mean of the group's valid plays. It adds up to m, so means and
baselines of SkyRL's own estimators stay what they are, and ours leaves it out: no play is ever worth −2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spade_gym.selfplay.advantages import group_advantages

#: The name under which SkyRL knows this estimator.
NAME = "spade"
#: Marks a row that counts for nothing; returns lie in [-1, 1].
STAND_IN = -2.0


def stand_in_rewards(mean: float) -> list[float]:
    """Return the rewards of the two tokens of a row that counts for nothing.

    Args:
        mean: Of the group's valid plays, in [-1, 1]; 0 without any.
    """
    return [mean - STAND_IN, STAND_IN]


def spade_advantages(
    token_level_rewards: Any, response_mask: Any, index: Sequence[Any], grpo_norm_by_std: bool = True, **_: Any
) -> tuple[Any, Any]:
    """Judge each play against the valid plays of its group: an estimator of SkyRL's registry.

    Args:
        token_level_rewards: Their sum over a row is its return, shape (rows, tokens).
        response_mask: 1 on the tokens of a row, shape (rows, tokens).
        index: The group of each row.
        grpo_norm_by_std: Whether to divide by the population standard deviation (method, section 6).

    Returns:
        Advantages and returns, which are the same, shape (rows, tokens); 0 for stand-ins.
    """
    import torch

    counts = ~(token_level_rewards == STAND_IN).any(dim=-1)
    totals = token_level_rewards.double().sum(dim=-1).tolist()
    groups: dict[str, list[int]] = {}
    for row, group in enumerate(index):
        if counts[row]:
            groups.setdefault(str(group), []).append(row)
    values = [0.0] * len(totals)
    for rows in groups.values():
        for row, value in zip(rows, group_advantages([totals[row] for row in rows], std=grpo_norm_by_std), strict=True):
            values[row] = value
    column = torch.tensor(values, dtype=torch.float32, device=token_level_rewards.device)
    advantages = column[:, None] * response_mask
    return advantages, advantages


def register() -> None:
    """Make ``spade_advantages`` known to SkyRL as ``spade``, once in a process."""
    from skyrl.backends.skyrl_train.utils.ppo_utils import AdvantageEstimatorRegistry

    if NAME not in AdvantageEstimatorRegistry.list_available():
        AdvantageEstimatorRegistry.register(NAME, spade_advantages)
