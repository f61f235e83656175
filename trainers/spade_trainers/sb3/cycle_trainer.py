"""The trainer ``sb3`` of the self-play cycle: PPO or DQN on the very plays of each rollout.

The cycle's policy is the model ``sb3:ppo`` or ``sb3:dqn`` (``policy_model.py``). Nothing is played twice: the steps of
the rollout's plays become a rollout buffer of PPO, or are added to DQN's replay buffer, and Stable-Baselines3's own
``train`` does the rest. PPO is on-policy, because each rollout is played with the weights of the update before.

Departures: advantages are those of PPO's own critic, the cycle's comparison within a group is not used; the designer's
trajectories hold nothing that this policy could learn from, and are only counted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spade_gym.selfplay.trainer import UpdateBatch
from spade_trainers.sb3 import policy_file
from spade_trainers.sb3.cycle_settings import Sb3Settings
from spade_trainers.sb3.policy_file import Sb3Error
from spade_trainers.sb3.policy_model import PolicyModel
from spade_trainers.sb3.steps import Steps, steps_of

if TYPE_CHECKING:
    from spade_gym.models.base import LanguageModel

_ARRAYS, _STATE = "sb3.npz", "sb3.json"


class Sb3Trainer:
    """A :class:`spade_gym.selfplay.trainer.Trainer` of a policy in this process.

    Args:
        model: Its policy is changed in place.
        settings: What it is told.
    """

    def __init__(self, model: PolicyModel, settings: Sb3Settings) -> None:
        self.settings = settings
        self._model = model
        self._num_updates = 0
        self._algorithm = _algorithm(model, settings)
        self._replay = self._algorithm.replay_buffer if model.algorithm == "dqn" else None

    # ---- the protocol

    def update(self, batch: UpdateBatch) -> Mapping[str, float]:
        """Learn from the plays of a batch.

        Raises:
            Sb3Error: PPO gets plays that were not drawn from its own probabilities.
            ValueError: Another model played.
        """
        plays = batch.plays
        metrics = {
            "agent/plays": float(len(plays)),
            "designer/trajectories_left_out": float(sum(item.role == "designer" for item in batch.trajectories)),
        }
        steps = steps_of(plays, self._model)
        if steps is not None:
            self._check_on_policy(batch)
            metrics["agent/reward"] = float(np.mean([play.total for play in plays]))
            metrics["agent/won_share"] = float(np.mean([play.won for play in plays]))
            metrics["agent/steps"] = float(len(steps.actions))
            metrics.update(self._learn(steps))
            self._model.policy_version += 1
        self._num_updates += 1
        self._explore()
        metrics["exploration"] = self._model.exploration
        return metrics

    def save(self, folder: Path) -> None:
        """Write weights, optimiser, counts, and of DQN what it remembers."""
        policy_file.save(folder / _ARRAYS, self._model.policy, self._replay)
        state = {
            "algorithm": self._model.algorithm, "commands": list(self._model.menu.commands),
            "num_updates": self._num_updates, "num_steps": self._algorithm._n_updates,
            "policy_version": self._model.policy_version,
        }  # fmt: skip
        (folder / _STATE).write_text(json.dumps(state) + "\n", encoding="utf-8")

    def load(self, folder: Path) -> None:
        """Go on from where ``save`` was called, exactly.

        Raises:
            Sb3Error: The folder holds no checkpoint of this model.
        """
        try:
            state = json.loads((folder / _STATE).read_text("utf-8"))
            told = (state["algorithm"], state["commands"])
            counts = [int(state[name]) for name in ("num_updates", "num_steps", "policy_version")]
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise Sb3Error(f"{folder} holds no checkpoint of the trainer sb3: {error!r}") from error
        if told != (self._model.algorithm, list(self._model.menu.commands)):
            raise Sb3Error(f"{folder} is of sb3:{told[0]} with the commands {told[1]}, not of {self._model.name}'s")
        policy_file.load(folder / _ARRAYS, self._model.policy, self._replay)
        self._num_updates, self._algorithm._n_updates, self._model.policy_version = counts
        self._explore()

    # ---- learning

    def _check_on_policy(self, batch: UpdateBatch) -> None:
        if self._model.algorithm != "ppo":
            return
        odd = {item.temperature for item in batch.trajectories if item.role == "agent"} - {1.0}
        if odd or self._model.was_narrowed:
            raise Sb3Error(
                "PPO learns from what its policy would do, so the agent must draw from all of it: set "
                f"agent.temperature = 1.0, agent.top_p = 1.0 and agent.top_k = 0 (temperature was {odd or 1.0}, "
                f"top-p or top-k {'left commands out' if self._model.was_narrowed else 'did not matter'})"
            )

    def _learn(self, steps: Steps) -> dict[str, float]:
        """Let Stable-Baselines3 train; return what it logs."""
        from stable_baselines3.common.logger import Logger

        from spade_trainers.sb3.learn import one_thread
        from spade_trainers.sb3.own_randomness import own_randomness

        algorithm = self._algorithm
        algorithm.set_logger(Logger(folder=None, output_formats=[]))
        with one_thread(), own_randomness(self.settings.seed, 1 + self._num_updates):
            if self._model.algorithm == "ppo":
                self._fill(steps)
                algorithm.train()
            else:
                self._remember(steps)
                algorithm.train(self.settings.gradient_steps, self.settings.batch_size)
                if (self._num_updates + 1) % self.settings.target_every == 0:
                    algorithm.q_net_target.load_state_dict(algorithm.q_net.state_dict())
        self._model.policy.set_training_mode(False)
        logged = {name: float(value) for name, value in algorithm.logger.name_to_value.items()}
        return {name: value for name, value in logged.items() if math.isfinite(value)}

    def _fill(self, steps: Steps) -> None:
        """Make PPO's rollout buffer of one environment in which the plays follow one another."""
        import torch
        from stable_baselines3.common.buffers import RolloutBuffer

        algorithm, count = self._algorithm, len(steps.actions)
        buffer = RolloutBuffer(
            count, algorithm.observation_space, algorithm.action_space, device="cpu",
            gamma=algorithm.gamma, gae_lambda=algorithm.gae_lambda, n_envs=1,
        )  # fmt: skip
        with torch.no_grad():
            values, logprobs, _ = self._model.policy.evaluate_actions(
                torch.as_tensor(steps.observations), torch.as_tensor(steps.actions)
            )
        for n in range(count):
            buffer.add(
                steps.observations[n : n + 1], steps.actions[n : n + 1], steps.rewards[n : n + 1],
                steps.starts[n : n + 1], values[n], logprobs[n],
            )  # fmt: skip
        buffer.compute_returns_and_advantage(last_values=torch.zeros(1), dones=np.ones(1, dtype=np.float32))
        algorithm.rollout_buffer = buffer

    def _remember(self, steps: Steps) -> None:
        for n in range(len(steps.actions)):
            self._algorithm.replay_buffer.add(
                steps.observations[n : n + 1], steps.following[n : n + 1], steps.actions[n : n + 1],
                steps.rewards[n : n + 1], steps.ends[n : n + 1], [{}],
            )  # fmt: skip

    def _explore(self) -> None:
        """Set how often DQN's commands are drawn at random."""
        settings = self.settings
        share = min(1.0, self._num_updates / settings.exploration_rollouts)
        self._model.exploration = 1.0 + share * (settings.exploration_final - 1.0)


def _algorithm(model: PolicyModel, settings: Sb3Settings) -> Any:
    """PPO or DQN around the model's policy, without an environment: the cycle plays."""
    from stable_baselines3 import DQN, PPO

    from spade_trainers.sb3.own_randomness import own_randomness

    told: dict[str, Any] = {
        "learning_rate": settings.learning_rate, "gamma": settings.gamma, "batch_size": settings.batch_size,
    }  # fmt: skip
    if model.algorithm == "ppo":
        told |= {
            "n_epochs": settings.epochs, "gae_lambda": settings.gae_lambda, "clip_range": settings.clip,
            "ent_coef": settings.entropy, "n_steps": settings.batch_size,
        }  # fmt: skip
    else:
        told["buffer_size"] = settings.buffer_steps
    no_env: Any = None  # the plays come from the cycle
    algorithm: Any = (PPO if model.algorithm == "ppo" else DQN)(
        "MlpPolicy", no_env, device="cpu", _init_setup_model=False, **told
    )
    algorithm.observation_space, algorithm.action_space = model.policy.observation_space, model.policy.action_space
    algorithm.n_envs = 1
    with own_randomness(settings.seed, 0):
        algorithm._setup_model()
    algorithm.policy = model.policy
    if model.algorithm == "dqn":
        algorithm._create_aliases()
    return algorithm


def make(model: LanguageModel, settings: Mapping[str, Any]) -> Sb3Trainer:
    """The entry point ``sb3`` of ``spade_gym.trainers``.

    Args:
        model: ``sb3:ppo`` or ``sb3:dqn``.
        settings: See :class:`spade_trainers.sb3.cycle_settings.Sb3Settings`.

    Raises:
        Sb3Error: The model is another one.
        RecipeError: A setting is unknown or out of range.
    """
    told = Sb3Settings.read(settings)
    if not isinstance(model, PolicyModel):
        raise Sb3Error(
            f'the trainer sb3 trains the models sb3:ppo and sb3:dqn (models.agent = "sb3:ppo"), not {model.name}'
        )
    return Sb3Trainer(model, told)
