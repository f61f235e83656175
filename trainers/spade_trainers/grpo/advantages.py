"""Which trajectories are learnt from, and what each is worth."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from spade_gym.selfplay.advantages import group_advantages
from spade_gym.selfplay.trainer import Trajectory
from spade_trainers.grpo.settings import AdvantageRule


class Judged(NamedTuple):
    """Trajectories with the advantages that the update uses.

    Attributes:
        trajectories: Those that count.
        num_dropped: Trajectories of agent groups that were left out because all their rewards are equal.
    """

    trajectories: tuple[Trajectory, ...]
    num_dropped: int


def judge(trajectories: Sequence[Trajectory], rule: AdvantageRule, *, drop_equal_groups: bool) -> Judged:
    """Return the trajectories that count, with their advantages.

    The designer's are the cycle's under every rule: they are centred within a skill and scaled to the agent's share.

    Args:
        trajectories: Of one update.
        rule: See ``GrpoSettings.advantages``.
        drop_equal_groups: See ``GrpoSettings``.
    """
    groups: dict[str, list[Trajectory]] = {}
    for item in trajectories:
        if item.role == "agent":
            groups.setdefault(item.group, []).append(item)
    found: dict[str, float | None] = {}
    for mine in groups.values():
        rewards = [item.reward for item in mine]
        dropped = drop_equal_groups and len(set(rewards)) == 1
        values = [item.advantage for item in mine] if rule == "given" else advantages(rewards, rule)
        found.update((item.key, None if dropped else value) for item, value in zip(mine, values, strict=True))
    kept: list[Trajectory] = []
    for item in trajectories:
        advantage = found[item.key] if item.role == "agent" else item.advantage
        if advantage is not None:
            kept.append(dataclasses.replace(item, advantage=advantage))
    return Judged(tuple(kept), len(trajectories) - len(kept))


def advantages(rewards: Sequence[float], rule: AdvantageRule) -> tuple[float, ...]:
    """Return the advantage of each trajectory of a group; their sum is 0, and one alone has 0.

    ``z-score``: (r − mean) / (population standard deviation + 1e-8) (GRPO, arXiv:2402.03300). ``centred``: r − mean
    (Dr. GRPO, arXiv:2503.20783). ``leave-one-out``: r − mean of the others (RLOO, arXiv:2402.14740), which is
    n / (n − 1) · (r − mean).

    Raises:
        ValueError: The rule is ``given``, which computes nothing, or a reward is not finite.
    """
    if rule == "given":
        raise ValueError("the rule 'given' takes the cycle's advantages; choose z-score, centred or leave-one-out")
    if rule == "leave-one-out":
        factor = len(rewards) / max(1, len(rewards) - 1)
        return tuple(factor * value for value in group_advantages(rewards, std=False))
    return group_advantages(rewards, std=rule == "z-score")
