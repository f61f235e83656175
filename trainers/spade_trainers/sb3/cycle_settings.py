"""What the trainer ``sb3`` is told: the table ``[trainer] options`` of a recipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spade_gym.curriculum.finite import at_least, whole_number
from spade_gym.selfplay.settings_table import read_table


@dataclass(frozen=True, slots=True, kw_only=True)
class Sb3Settings:
    """Everything that changes an update.

    Attributes:
        learning_rate: Constant.
        gamma: Discount a step.
        batch_size: Steps of a minibatch.
        seed: Seeds the order of steps.
        epochs: PPO: passes over the plays of a rollout.
        gae_lambda, clip, entropy: PPO: see ``stable_baselines3.PPO`` (``clip_range``, ``ent_coef``).
        buffer_steps: DQN: steps that are remembered.
        gradient_steps: DQN: minibatches an update.
        target_every: DQN: updates between two copies of the network that targets come from.
        exploration_rollouts: DQN: updates over which exploration falls from 1 to ``exploration_final``.
        exploration_final: DQN: share of commands drawn at random in the end.
    """

    learning_rate: float = 1e-3
    gamma: float = 0.98
    batch_size: int = 256
    seed: int = 0
    epochs: int = 6
    gae_lambda: float = 0.95
    clip: float = 0.2
    entropy: float = 0.01
    buffer_steps: int = 50_000
    gradient_steps: int = 100
    target_every: int = 5
    exploration_rollouts: int = 25
    exploration_final: float = 0.02

    def __post_init__(self) -> None:
        """Refuse values with which an update means nothing."""
        for name in ("learning_rate", "clip"):
            at_least(name, getattr(self, name), 0.0, strictly=True)
        at_least("entropy", self.entropy, 0.0)
        for name in ("gamma", "gae_lambda", "exploration_final"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be from 0 to 1, got {getattr(self, name)!r}")
        for name in ("batch_size", "epochs", "buffer_steps", "gradient_steps", "target_every", "exploration_rollouts"):
            whole_number(name, getattr(self, name), least=1)
        whole_number("seed", self.seed, least=0)

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> Sb3Settings:
        """Read them from a recipe.

        Raises:
            RecipeError: An unknown key, or a value that is out of range.
        """
        return read_table(cls, options, "[trainer] options")
