"""Trains an agent of Stable-Baselines3 on a program: the entry point ``sb3`` of ``spade_gym.trainers``.

Nothing of Stable-Baselines3 or torch is imported before :func:`train` is called.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from spade_gym.envs.wrappers import HashedText, menu_of
from spade_gym.errors import SpadeError
from spade_trainers.report import TrainReport, WinRate

if TYPE_CHECKING:
    from spade_trainers.sb3.agent import Agent, AgentSettings

logger = logging.getLogger(__name__)

REPORT_FILE, LOGS_FOLDER = "report.json", "tensorboard"


def train(
    env_id: str,
    *,
    steps: int,
    seed: int = 0,
    out: Path,
    algo: str = "ppo",
    num_envs: int = 64,
    eval_episodes: int = 100,
    greedy: bool = True,
    history: int = 1,
    keep_first: bool = False,
    num_features: int = 512,
    commands: tuple[str, ...] | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    hyperparameters: Mapping[str, Any] | None = None,
    progress: bool | None = None,
    notify: Callable[[str], None] | None = None,
) -> TrainReport:
    """Train an agent, and measure its wins on unseen seeds before and after.

    Writes into ``out``: ``model.zip`` and ``agent.json`` (read by ``Agent.load``), ``report.json``, and
    ``tensorboard/``; files of an earlier run there are replaced.

    Seeds of training instances are below 2**31, those of evaluation from 2**31 on.

    Args:
        env_id: A Gymnasium id whose environment speaks text and has a finite menu of commands.
        steps: Environment steps, rounded up to whole rollouts.
        seed: Seeds the model, the exploration and the training instances.
        out: Folder for the results; made if missing.
        algo: ``ppo``, ``dqn``, or ``maskable_ppo`` (needs sb3-contrib).
        num_envs: Instances played at once.
        eval_episodes: Unseen instances, played before and after.
        greedy: Evaluate the best action rather than a drawn one.
        history: How many of the last observations the agent sees.
        keep_first: Whether it also sees the episode's first observation.
        num_features: Length of the vector of one observation.
        commands: Commands or templates; absent: the program's.
        env_kwargs: More arguments of ``gymnasium.make``, for example ``program`` with ``spade/Program-v0``.
        hyperparameters: Overrides arguments of the algorithm's class.
        progress: Show a progress bar; absent: when standard error is a terminal.
        notify: Gets one line of text on every stage.

    Raises:
        SpadeError: Stable-Baselines3 is missing, the environment has no finite menu, or every play is faulty.
        ValueError: A number is out of range.
    """
    for key, value in (("steps", steps), ("num_envs", num_envs), ("eval_episodes", eval_episodes)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{key} must be a positive whole number, got {value!r}")
    require_packages()
    from spade_trainers.sb3.agent import algorithm_class

    model_class = algorithm_class(algo)
    say = notify or logger.info
    kwargs = dict(env_kwargs or {})
    settings = _settings(
        env_id, kwargs, algo, commands, history=history, keep_first=keep_first, num_features=num_features
    )
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    with _one_thread():
        run = _Run(settings, kwargs, seed=seed, eval_episodes=eval_episodes, greedy=greedy, say=say)
        return run.train(
            model_class, steps=steps, num_envs=num_envs, out=out, overrides=hyperparameters, progress=progress
        )


def require_packages() -> None:
    """Check that what training needs is installed.

    Raises:
        SpadeError: It is not; the message holds the command that installs it.
    """
    for name in ("stable_baselines3", "tensorboard", "tqdm", "rich"):
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise SpadeError(
                f"training needs {name.replace('_', '-')}, which cannot be imported ({error}): "
                'pip install "spade-gym[sb3]"'
            ) from error


class _Run:
    """One training run: what stays fixed from the first evaluation to the last."""

    def __init__(
        self,
        settings: AgentSettings,
        env_kwargs: dict[str, Any],
        *,
        seed: int,
        eval_episodes: int,
        greedy: bool,
        say: Callable[[str], None],
    ) -> None:
        self.settings = settings
        self.env_kwargs = env_kwargs
        self.seed = seed
        self.eval_episodes = eval_episodes
        self.greedy = greedy
        self.say = say

    def train(
        self,
        model_class: Any,
        *,
        steps: int,
        num_envs: int,
        out: Path,
        overrides: Mapping[str, Any] | None,
        progress: bool | None,
    ) -> TrainReport:
        """Evaluate, train, save, evaluate."""
        from stable_baselines3.common.vec_env import VecMonitor

        from spade_trainers.sb3.agent import Agent
        from spade_trainers.sb3.defaults import hyperparameters
        from spade_trainers.sb3.faults import FaultCount

        self.say(f"{len(self.settings.commands)} commands: {_shortened(self.settings.commands)}")
        random = self._random_player()
        self.say(f"uniform random player: {random}")
        envs = self.settings.environments(num_envs, env_kwargs=self.env_kwargs, turn_limit_is_loss=True)
        try:
            envs.seed(_first_seed(self.seed, num_envs))
            chosen = {**hyperparameters(self.settings.algorithm, steps=steps, num_envs=num_envs), **(overrides or {})}
            logs = out / LOGS_FOLDER
            model = model_class(
                "MlpPolicy", VecMonitor(envs), seed=self.seed, device="cpu", tensorboard_log=str(logs), **chosen
            )
            agent = Agent(model, self.settings)
            before = self._wins(agent)
            self.say(f"before training: {before}")
            faults = FaultCount()
            bar = sys.stderr.isatty() if progress is None else progress
            started = time.perf_counter()
            model.learn(steps, callback=faults, progress_bar=bar, tb_log_name=self.settings.algorithm)
            seconds = time.perf_counter() - started
        finally:
            envs.close()
        path = agent.save(out)
        after = self._wins(agent)
        self.say(f"after {model.num_timesteps:,} steps in {seconds:.0f} s: {after}")
        report = TrainReport(
            env_id=self.settings.env_id,
            digest=self.settings.digest,
            algorithm=self.settings.algorithm,
            seed=self.seed,
            steps=model.num_timesteps,
            seconds=seconds,
            random=random,
            before=before,
            after=after,
            faulty_training_plays=faults.count,
            model=path,
            logs=logs,
        )
        (out / REPORT_FILE).write_text(json.dumps(report.as_json(), indent=2) + "\n", "utf-8")
        return report

    def _random_player(self) -> WinRate:
        from spade_trainers.sb3.evaluate import evaluate, uniform, unseen_seeds

        rng = np.random.default_rng(self.seed)
        wins, fault = evaluate(uniform(rng), self._open, unseen_seeds(self.eval_episodes))
        if wins.plays == 0:
            raise SpadeError(
                f"{self.settings.env_id} fails in every play, so nothing can be learned from it; "
                f"the first fault: {fault}"
            )
        return wins

    def _wins(self, agent: Agent) -> WinRate:
        from spade_trainers.sb3.evaluate import evaluate, unseen_seeds

        def choose(observations: Any, masks: Any) -> Any:
            return agent.choose(observations, masks, greedy=self.greedy)

        return evaluate(choose, self._open, unseen_seeds(self.eval_episodes)).wins

    def _open(self, num_envs: int) -> Any:
        return self.settings.environments(num_envs, env_kwargs=self.env_kwargs)


def _settings(
    env_id: str,
    env_kwargs: dict[str, Any],
    algo: str,
    commands: tuple[str, ...] | None,
    *,
    history: int,
    keep_first: bool,
    num_features: int,
) -> AgentSettings:
    """Look at one environment and decide what the agent sees and does."""
    from spade_trainers.sb3.agent import AgentSettings, digest_in

    try:
        env = gym.make(env_id, **env_kwargs)
    except gym.error.Error as error:
        raise SpadeError(f"no environment {env_id!r}: {error} (spade-gym list shows the bundled programs)") from error
    try:
        menu = menu_of(env, commands)
        digest = digest_in(env)
    finally:
        env.close()
    kept = {key: value for key, value in env_kwargs.items() if key != "program"}
    if "program" in env_kwargs:
        program = env_kwargs["program"]
        kept["program"] = str(program) if isinstance(program, str | Path) else digest
    return AgentSettings(
        env_id=env_id,
        env_kwargs=kept,
        digest=digest,
        algorithm=algo,
        commands=menu.commands,
        boxed=menu.boxed,
        features=HashedText(num_features).settings,
        history=history,
        keep_first=keep_first,
    )


def _first_seed(seed: int, num_envs: int) -> int:
    """Draw the first of ``num_envs`` consecutive seeds of training instances, all below 2**31."""
    return int(np.random.default_rng([seed, 1]).integers(2**31 - num_envs))


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Let torch use one thread: these networks are small, and waiting threads slow the environments down."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _shortened(commands: tuple[str, ...], limit: int = 8) -> str:
    shown = ", ".join(commands[:limit])
    return shown if len(commands) <= limit else f"{shown}, ... ({len(commands) - limit} more)"
