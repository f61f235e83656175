"""A trained agent: the model with everything that turns texts into its numbers, saved and loaded together."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from spade_gym.envs.wrappers import HashedText, Menu
from spade_gym.errors import SpadeError
from spade_gym.programs.program import Program
from spade_trainers.sb3.vec_env import ProgramVecEnv

MODEL_FILE, SETTINGS_FILE = "model.zip", "agent.json"
#: Algorithms: name, module and class of the model.
ALGORITHMS = {
    "ppo": ("stable_baselines3", "PPO"),
    "dqn": ("stable_baselines3", "DQN"),
    "maskable_ppo": ("sb3_contrib", "MaskablePPO"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """What has to be the same in training and in play.

    Attributes:
        env_id: Gymnasium id of the environment.
        env_kwargs: Arguments of ``gymnasium.make``, JSON values.
        digest: Digest of the program; ``""`` for an environment that is no program.
        algorithm: A key of :data:`ALGORITHMS`.
        commands: The menu's commands; the model's actions are their places.
        boxed: Whether the program gets them in a box.
        features: Arguments of ``HashedText``.
        history: How many of the last observations the model sees.
        keep_first: Whether it also sees the first one.
    """

    env_id: str
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    digest: str = ""
    algorithm: str = "ppo"
    commands: tuple[str, ...]
    boxed: bool = True
    features: dict[str, Any] = field(default_factory=dict)
    history: int = 1
    keep_first: bool = False

    @property
    def menu(self) -> Menu:
        """The menu of commands."""
        return Menu(tuple(self.commands), self.boxed)

    def environments(
        self, num_envs: int, *, env_kwargs: Mapping[str, Any] | None = None, turn_limit_is_loss: bool = False
    ) -> ProgramVecEnv:
        """Open a batch of environments as the model sees them.

        Args:
            num_envs: How many.
            env_kwargs: Arguments of ``gymnasium.make_vec``; absent: the saved ones.
            turn_limit_is_loss: See :class:`~spade_trainers.sb3.vec_env.ProgramVecEnv`.

        Raises:
            SpadeError: The environment runs another program than the agent was made for.
        """
        kwargs = dict(self.env_kwargs if env_kwargs is None else env_kwargs)
        envs = gym.make_vec(self.env_id, num_envs=num_envs, autoreset_mode="SameStep", **kwargs)
        self._check_program(envs)
        return ProgramVecEnv(
            envs,
            self.menu,
            HashedText(**self.features),
            history=self.history,
            keep_first=self.keep_first,
            turn_limit_is_loss=turn_limit_is_loss,
        )

    def _check_program(self, envs: gym.vector.VectorEnv[Any, Any, Any]) -> None:
        for program in getattr(envs, "programs", ()):
            if self.digest and program.digest != self.digest:
                envs.close()
                raise SpadeError(
                    f"this agent was made for the program {self.digest[:12]}, but {self.env_id} now runs "
                    f"{program.digest[:12]}: train it again, or pass env_kwargs={{'program': <the old one>}}"
                )

    def write(self, folder: Path) -> None:
        """Write the settings into a folder, as JSON."""
        (folder / SETTINGS_FILE).write_text(json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n", "utf-8")

    @classmethod
    def read(cls, folder: Path) -> AgentSettings:
        """Read the settings from a folder.

        Raises:
            SpadeError: The file is missing or malformed.
        """
        path = folder / SETTINGS_FILE
        try:
            table = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise SpadeError(f"{folder} holds no trained agent: {path} cannot be read: {error}") from error
        known = [item.name for item in fields(cls)]
        if not isinstance(table, dict) or not set(table) <= set(known) or not {"env_id", "commands"} <= set(table):
            raise SpadeError(f"{path} must be a JSON object with env_id, commands and others of {', '.join(known)}")
        return cls(**{**table, "commands": tuple(table["commands"])})


@dataclass(frozen=True, slots=True)
class Agent:
    """A model and its settings.

    Attributes:
        model: The Stable-Baselines3 model.
        settings: What turns texts into its numbers.
    """

    model: Any
    settings: AgentSettings

    def choose(
        self, observations: npt.NDArray[np.float32], masks: npt.NDArray[np.bool_], *, greedy: bool = True
    ) -> npt.NDArray[np.int64]:
        """Choose an action for each observation.

        Args:
            observations: Shape (num_envs, length of an observation).
            masks: Which actions are available, shape (num_envs, number of commands); only maskable models use it.
            greedy: Take the best action rather than draw one.

        Returns:
            Shape (num_envs,).
        """
        extra = {"action_masks": masks} if self.settings.algorithm == "maskable_ppo" else {}
        actions, _ = self.model.predict(observations, deterministic=greedy, **extra)
        return np.asarray(actions, dtype=np.int64)

    def save(self, folder: Path) -> Path:
        """Write model and settings into a folder; return the model's file."""
        folder.mkdir(parents=True, exist_ok=True)
        self.settings.write(folder)
        self.model.save(folder / MODEL_FILE)
        return folder / MODEL_FILE

    @classmethod
    def load(cls, folder: str | Path) -> Agent:
        """Load an agent that was saved.

        Loading a Stable-Baselines3 model unpickles its file: load only what you trust.

        Raises:
            SpadeError: The folder holds no agent, or its algorithm's package is not installed.
        """
        folder = Path(folder)
        settings = AgentSettings.read(folder)
        model = algorithm_class(settings.algorithm).load(folder / MODEL_FILE, device="cpu")
        return cls(model, settings)


def algorithm_class(name: str) -> Any:
    """Return the class of an algorithm.

    Raises:
        SpadeError: There is no such algorithm, or its package is not installed.
    """
    if name not in ALGORITHMS:
        raise SpadeError(f"there is no algorithm {name!r}; the algorithms are {', '.join(ALGORITHMS)}")
    module, attribute = ALGORITHMS[name]
    try:
        return getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        package = module.replace("_", "-")
        raise SpadeError(f"the algorithm {name} needs {package} ({error}): pip install {package}") from error


def digest_in(env: gym.Env[Any, Any]) -> str:
    """Return the digest of an environment's program, or ``""``."""
    program = getattr(env.unwrapped, "program", None)
    return program.digest if isinstance(program, Program) else ""
