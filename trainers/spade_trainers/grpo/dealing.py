"""Which trajectories each optimiser step of an update learns from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from spade_gym.selfplay.trainer import Trajectory
from spade_trainers.grpo.aggregation import token_coefficients
from spade_trainers.grpo.packing import Piece, pieces_of
from spade_trainers.grpo.settings import GrpoSettings


class Part(NamedTuple):
    """What one optimiser step learns from.

    Attributes:
        pieces: Samples whose tokens can have a gradient.
        coefficients: Of the tokens of each trajectory, by its index in the update.
    """

    pieces: list[Piece]
    coefficients: dict[int, float]


def deal(
    trajectories: Sequence[Trajectory], settings: GrpoSettings, rng: np.random.Generator, *, policy_version: int
) -> list[Part]:
    """Split an update into the optimiser steps of one pass; parts without a gradient are left out.

    Tokens of advantage 0 have a policy gradient of 0: without KL and entropy terms they are not computed. They count in
    the coefficients all the same.

    Args:
        trajectories: Each with a sampled token.
        settings: ``minibatches``, aggregation, and what else has a gradient.
        rng: Deals trajectories to several minibatches; not used for one.
        policy_version: Of the weights that are updated.
    """
    count = min(settings.minibatches, len(trajectories))
    order = list(range(len(trajectories)))
    if count > 1:
        order = [int(index) for index in rng.permutation(len(trajectories))]
    parts = []
    for number in range(count):
        mine = sorted(order[number::count])
        coefficients = token_coefficients(
            [trajectories[index] for index in mine], settings.aggregation, fixed_length=settings.fixed_length
        )
        pieces = [
            piece
            for index in mine
            if trajectories[index].advantage or settings.kl or settings.entropy
            for piece in pieces_of(trajectories[index], index, policy_version=policy_version)
        ]
        if pieces:
            parts.append(Part(pieces, dict(zip(mine, coefficients, strict=True))))
    return parts
