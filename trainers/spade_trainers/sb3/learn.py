"""One model, learning: its environments, its schedule, its logs."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from stable_baselines3.common.vec_env import VecMonitor

from spade_trainers.sb3.agent import Agent, AgentSettings, algorithm_class
from spade_trainers.sb3.defaults import hyperparameters
from spade_trainers.sb3.faults import FaultCount


class Learned(NamedTuple):
    """What learning took.

    Attributes:
        steps: Environment steps that were made.
        seconds: Wall-clock time.
        faulty_plays: Plays that the program cut off by failing.
    """

    steps: int
    seconds: float
    faulty_plays: int


@contextlib.contextmanager
def fresh_agent(
    settings: AgentSettings,
    env_kwargs: Mapping[str, Any],
    *,
    steps: int,
    seed: int,
    num_envs: int,
    logs: Path,
    overrides: Mapping[str, Any],
) -> Iterator[Agent]:
    """Make an untrained agent with its training environments, which are closed at the end.

    Args:
        settings: What it sees and does.
        env_kwargs: Arguments of ``gymnasium.make_vec``.
        steps: The budget, on which the defaults depend.
        seed: Seeds weights, exploration and instances.
        num_envs: Instances played at once.
        logs: Folder for TensorBoard.
        overrides: Arguments of the algorithm's class in place of the defaults.
    """
    envs = settings.environments(num_envs, env_kwargs=env_kwargs, turn_limit_is_loss=True)
    try:
        chosen = {**hyperparameters(settings.algorithm, steps=steps, num_envs=num_envs), **overrides}
        model = algorithm_class(settings.algorithm)(
            "MlpPolicy", VecMonitor(envs), seed=seed, device="cpu", tensorboard_log=str(logs), **chosen
        )
        # The model has seeded its environments with its own small seed; instances get theirs instead.
        envs.seed(first_training_seed(seed, num_envs))
        yield Agent(model, settings)
    finally:
        envs.close()


def learn(agent: Agent, *, steps: int, progress: bool | None) -> Learned:
    """Train an agent.

    Args:
        agent: From :func:`fresh_agent`.
        steps: Environment steps, rounded up to whole rollouts.
        progress: Show a progress bar; absent: when standard error is a terminal.
    """
    faults = FaultCount()
    bar = sys.stderr.isatty() if progress is None else progress
    started = time.perf_counter()
    agent.model.learn(steps, callback=faults, progress_bar=bar, tb_log_name=agent.settings.algorithm)
    return Learned(agent.model.num_timesteps, time.perf_counter() - started, faults.count)


def first_training_seed(seed: int, num_envs: int) -> int:
    """Draw the first of ``num_envs`` consecutive seeds of training instances, all below 2**31."""
    return int(np.random.default_rng([seed, 1]).integers(2**31 - num_envs))


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread: these networks are small, and waiting threads slow the environments down."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
