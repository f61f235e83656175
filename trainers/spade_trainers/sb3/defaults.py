"""Hyper-parameters that let small text games be learned in a minute or two on one core.

Found by trying them on five bundled games (AppleCatch, BeaconWalk, ParcelChutes, RaftBalance, SignalBox).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_ROLLOUT_STEPS = 2048
_LEARNING_RATE = 1e-3
_NETWORK = {"net_arch": [128, 128]}


def hyperparameters(algorithm: str, *, steps: int, num_envs: int) -> dict[str, Any]:
    """Return the arguments of an algorithm's class.

    Args:
        algorithm: ``ppo``, ``maskable_ppo`` or ``dqn``.
        steps: The budget; small ones get short rollouts.
        num_envs: Instances played at once.
    """
    return _dqn(steps, num_envs) if algorithm == "dqn" else _ppo(steps, num_envs)


def _ppo(steps: int, num_envs: int) -> dict[str, Any]:
    rollout = min(_ROLLOUT_STEPS, steps)
    # A multiple of 4 steps an environment, so that four equal minibatches make up a rollout.
    num_steps = max(4, rollout // num_envs // 4 * 4)
    return {
        "n_steps": num_steps,
        "batch_size": num_steps * num_envs // 4,
        "n_epochs": 6,
        "learning_rate": linear(_LEARNING_RATE),
        "gamma": 0.98,
        "gae_lambda": 0.95,
        "ent_coef": 0.01,
        "policy_kwargs": dict(_NETWORK),
    }


def _dqn(steps: int, num_envs: int) -> dict[str, Any]:
    return {
        "buffer_size": max(num_envs, min(steps, 50_000)),
        "learning_starts": min(steps // 10, 2_000),
        "train_freq": 1,
        "gradient_steps": max(1, num_envs // 16),
        "batch_size": 256,
        "learning_rate": linear(_LEARNING_RATE),
        "gamma": 0.98,
        "target_update_interval": max(num_envs, 2_000),
        "exploration_fraction": 0.5,
        "exploration_final_eps": 0.02,
        "policy_kwargs": dict(_NETWORK),
    }


def linear(initial: float) -> Callable[[float], float]:
    """Return a schedule that falls from ``initial`` to zero over the budget."""

    def rate(remaining: float) -> float:
        return initial * remaining

    return rate
