"""Trains an agent of Stable-Baselines3 on a program: the entry point ``sb3`` of ``spade_gym.learners``.

Nothing of Stable-Baselines3 or torch is imported before :func:`train` is called.
"""

from __future__ import annotations

import importlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from spade_gym.envs.wrappers import HashedText, menu_of
from spade_gym.envs.wrappers.text_spaces import is_text
from spade_gym.errors import SpadeError
from spade_trainers.report import TrainReport

if TYPE_CHECKING:
    from spade_trainers.sb3.agent import AgentSettings

logger = logging.getLogger(__name__)

REPORT_FILE, LOGS_FOLDER = "report.json", "tensorboard"


def train(
    env_id: str,
    *,
    steps: int,
    out: Path | str,
    seed: int = 0,
    algo: str = "ppo",
    num_envs: int = 64,
    eval_episodes: int = 100,
    greedy: bool = True,
    history: int = 1,
    keep_first: bool = False,
    num_features: int = 512,
    commands: Sequence[str] | None = None,
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
        out: Folder for the results; made if missing.
        seed: Seeds the model, the exploration and the training instances.
        algo: ``ppo``, ``dqn``, or ``maskable_ppo`` (needs sb3-contrib).
        num_envs: Instances played at once.
        eval_episodes: Unseen instances, played before and after.
        greedy: Evaluate the best action rather than a drawn one.
        history: How many of the last observations the agent sees.
        keep_first: Whether it also sees the episode's first observation.
        num_features: Length of the vector of one observation.
        commands: Commands or templates; absent: the program's.
        env_kwargs: More arguments of ``gymnasium.make``, for example ``program`` with ``spade/Program-v0``.
        hyperparameters: Arguments of the algorithm's class in place of the defaults.
        progress: Show a progress bar; absent: when standard error is a terminal.
        notify: Gets one line of text on every stage; absent: it is logged.

    Raises:
        SpadeError: Stable-Baselines3 is missing, the environment has no finite menu, or every play is faulty.
        ValueError: A number is out of range.
    """
    _check_counts(steps=steps, num_envs=num_envs, eval_episodes=eval_episodes)
    require_packages()
    from spade_trainers.sb3.agent import algorithm_class
    from spade_trainers.sb3.learn import fresh_agent, learn, one_thread
    from spade_trainers.sb3.measure import Measure

    algorithm_class(algo)
    say = notify or logger.info
    kwargs = dict(env_kwargs or {})
    features = HashedText(num_features).settings
    settings = _look(
        env_id, kwargs, commands, algorithm=algo, features=features, history=history, keep_first=keep_first
    )
    say(f"{env_id}: {len(settings.commands)} commands: {_shortened(settings.commands)}")
    out = Path(out)
    logs = out / LOGS_FOLDER
    logs.mkdir(parents=True, exist_ok=True)
    measure = Measure(settings=settings, env_kwargs=kwargs, num_plays=eval_episodes, greedy=greedy)
    with (
        one_thread(),
        fresh_agent(
            settings, kwargs, steps=steps, seed=seed, num_envs=num_envs, logs=logs, overrides=hyperparameters or {}
        ) as agent,
    ):
        random = measure.random(seed)
        say(f"uniform random player: {random}")
        before = measure.agent(agent)
        say(f"before training: {before}")
        learned = learn(agent, steps=steps, progress=progress)
        model = agent.save(out)
        after = measure.agent(agent)
        say(f"after {learned.steps:,} steps of {algo} in {learned.seconds:.0f} s: {after}")
    report = TrainReport(
        env_id=env_id,
        digest=settings.digest,
        algorithm=algo,
        seed=seed,
        steps=learned.steps,
        seconds=learned.seconds,
        random=random,
        before=before,
        after=after,
        faulty_training_plays=learned.faulty_plays,
        model=model,
        logs=logs,
    )
    (out / REPORT_FILE).write_text(json.dumps(report.as_json(), indent=2) + "\n", "utf-8")
    return report


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
                "pip install \"spade-gym[sb3]\" (in a clone: pip install '.[sb3]')"
            ) from error


def _check_counts(**counts: int) -> None:
    for key, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{key} must be a positive whole number, got {value!r}")


def _look(env_id: str, env_kwargs: Mapping[str, Any], commands: Sequence[str] | None, **settings: Any) -> AgentSettings:
    """Look at one environment, and decide what the agent sees and does."""
    from spade_trainers.sb3.agent import AgentSettings, digest_in

    try:
        env = gym.make(env_id, **env_kwargs)
    except gym.error.Error as error:
        raise SpadeError(f"no environment {env_id!r}: {error} (spade-gym list shows the bundled programs)") from error
    try:
        for kind, space in (("observations", env.observation_space), ("actions", env.action_space)):
            if not is_text(space):
                raise SpadeError(
                    f"{env_id} has the {kind} {space}, not texts: it is no program's environment. Train "
                    "Stable-Baselines3 on it directly, or choose one of spade-gym list"
                )
        menu = menu_of(env, commands)
        digest = digest_in(env)
    finally:
        env.close()
    saved = dict(env_kwargs)
    if "program" in saved and not isinstance(saved["program"], str):
        saved["program"] = str(saved["program"]) if isinstance(saved["program"], Path) else digest
    return AgentSettings(
        env_id=env_id, env_kwargs=saved, digest=digest, commands=menu.commands, boxed=menu.boxed, **settings
    )


def _shortened(commands: Sequence[str], limit: int = 8) -> str:
    shown = ", ".join(commands[:limit])
    return shown if len(commands) <= limit else f"{shown}, ... ({len(commands) - limit} more)"
