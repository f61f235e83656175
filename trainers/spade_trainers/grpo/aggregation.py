"""What a token counts: loss of an update = Σ coefficient · loss of the token, over all sampled tokens.

With N trajectories in the update (of both roles), trajectory i of n_i sampled tokens in a group g of N_g trajectories::

    token     1 / Σ n_j                     every token alike                  (DAPO, arXiv:2503.14476)
    sequence  1 / (N · n_i)                 every trajectory alike             (GRPO, arXiv:2402.03300)
    fixed     1 / (N · fixed_length)        no length in it                    (Dr. GRPO, arXiv:2503.20783)
    group     (N_g / N) / Σ_{j in g} n_j    token mean within a group, then over the batch, where a group
                                            weighs as much as it has trajectories (as released; method, section 7)

Samples of one trajectory (turns of a model that thinks) count as one sequence. The designer's scale (method, section 5)
makes up for its few trajectories under ``sequence`` and ``group``, where N is what it is compared with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from spade_gym.selfplay.trainer import Trajectory
from spade_trainers.grpo.settings import Aggregation


def token_coefficients(
    trajectories: Sequence[Trajectory], aggregation: Aggregation, *, fixed_length: int = 1
) -> tuple[float, ...]:
    """Return the coefficient of each trajectory's tokens.

    Args:
        trajectories: Of one optimiser step, those of advantage 0 among them; each with a sampled token.
        aggregation: See the module.
        fixed_length: Of ``fixed``.

    Raises:
        ValueError: A trajectory has no sampled token.
    """
    lengths = [num_sampled(item) for item in trajectories]
    if 0 in lengths:
        raise ValueError(f"the trajectory {trajectories[lengths.index(0)].key!r} has no sampled token; leave it out")
    count = len(lengths)
    if aggregation == "token":
        return (1 / max(1, sum(lengths)),) * count
    if aggregation == "sequence":
        return tuple(1 / (count * length) for length in lengths)
    if aggregation == "fixed":
        return (1 / (count * fixed_length),) * count if count else ()
    if aggregation == "group":
        members: dict[tuple[str, str], int] = {}
        tokens: dict[tuple[str, str], int] = {}
        names = [(item.role, item.group) for item in trajectories]
        for name, length in zip(names, lengths, strict=True):
            members[name] = members.get(name, 0) + 1
            tokens[name] = tokens.get(name, 0) + length
        return tuple(members[name] / count / tokens[name] for name in names)
    assert_never(aggregation)


def num_sampled(trajectory: Trajectory) -> int:
    """Count the sampled tokens of a trajectory."""
    return sum(sum(sample.mask) for sample in trajectory.samples)
