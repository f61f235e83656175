"""The seam between the cycle and whatever changes the weights.

A distribution offers a trainer by an entry point of the group ``spade_gym.trainers`` that names a *factory*:
``factory(model, settings) -> Trainer``, where ``model`` is the :class:`~spade_gym.models.base.LanguageModel` that
plays (so that a trainer can hand it new weights) and ``settings`` is the recipe's table ``[trainer]``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from spade_gym.models.sample import Sample
from spade_gym.rollout.play import Play

PolicyRole = Literal["agent", "designer"]


@dataclass(frozen=True, slots=True)
class Trajectory:
    """Something to learn from.

    Attributes:
        key: Of the play or the designer's request.
        role: Whose reply it is.
        group: Trajectories of one group are compared with one another: the agent's plays of one program in one
            rollout, the designer's programs of one skill in one window.
        reward: The agent's return, or the designer's raw reward.
        advantage: From the cycle (method, sections 5 and 6); a trainer may compute its own from ``reward``.
        samples: Token ids, masks and behaviour log-probabilities.
        born: Number of the rollout in which it was sampled.
        temperature: At which the samples' log-probabilities are (``ModelRequest``'s, 1 where that is greedy); positive.
    """

    key: str
    role: PolicyRole
    group: str
    reward: float
    advantage: float
    samples: tuple[Sample, ...]
    born: int
    temperature: float = 1.0


@dataclass(frozen=True, slots=True)
class UpdateBatch:
    """What one optimiser step learns from.

    Attributes:
        rollout: Number of the rollout, from 0.
        trajectories: Of both roles; the designer's are from the window that has just closed.
        plays: Those of the agent's trajectories, by the same keys and in the same order, with program, seed, transcript
            and rewards of each step: for trainers whose policy does not speak in token ids.
    """

    rollout: int
    trajectories: tuple[Trajectory, ...]
    plays: tuple[Play, ...] = ()


class Trainer(Protocol):
    """Changes the weights; one call is one optimiser step on both roles."""

    def update(self, batch: UpdateBatch) -> Mapping[str, float]:
        """Learn, hand the new weights to the model, and return metrics (finite numbers by name)."""

    def save(self, folder: Path) -> None:
        """Write everything that ``load`` needs to go on exactly: weights, optimiser, generators."""

    def load(self, folder: Path) -> None:
        """Read what ``save`` wrote."""
