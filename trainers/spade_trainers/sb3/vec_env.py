"""The batched program environment as a ``VecEnv`` of Stable-Baselines3, with numbers instead of texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvStepReturn

from spade_gym.envs.wrappers import HashedText, Menu, TextStack
from spade_gym.envs.wrappers.text_spaces import is_text

Infos = list[dict[str, Any]]


class ProgramVecEnv(VecEnv):  # type: ignore[misc,unused-ignore]
    """Lets Stable-Baselines3 play many instances of a program at once, with one message a step.

    Actions are numbers of ``menu``; observations are vectors of ``encode``, stacked as in ``HashObs``. Trajectories
    are those of ``HashObs(ActionMenu(env))`` with the same seeds.

    Infos are those of the program's environment. At the end of a play they also hold ``terminal_observation`` and
    ``TimeLimit.truncated``, and for a play that the program cut off by failing ``env_error`` (bool, always present
    at an end): such a play is never a loss, so Stable-Baselines3 is told to bootstrap from its last observation.

    Args:
        envs: A vector environment with texts on both sides and autoreset mode ``SameStep``:
            ``gymnasium.make_vec("spade/BeaconWalk-v0", num_envs=64, autoreset_mode="SameStep")``.
        menu: The commands (:func:`spade_gym.envs.wrappers.menu_of`).
        encode: Turns a text into a vector; absent: ``HashedText()``.
        history: How many of the last observations the vector holds.
        keep_first: Whether it also holds the episode's first observation.
        turn_limit_is_loss: Tell Stable-Baselines3 that a play which reached its turn limit is over for good. By
            default it bootstraps there, as for any time limit. But the number of turns is part of a program's task,
            and with bootstrapping an unfinished play is worth more than a won one: an agent that had learned to
            win (.94) unlearned it (.04) within 50,000 steps.

    Raises:
        ValueError: The autoreset mode is another one.
        TypeError: Observations or actions are no texts.
    """

    def __init__(
        self,
        envs: gym.vector.VectorEnv[Any, Any, Any],
        menu: Menu,
        encode: HashedText | None = None,
        *,
        history: int = 1,
        keep_first: bool = False,
        turn_limit_is_loss: bool = False,
    ) -> None:
        _check(envs)
        self.envs = envs
        self.menu = menu
        self.encode = HashedText() if encode is None else encode
        self.turn_limit_is_loss = turn_limit_is_loss
        self._stacks = [
            TextStack(self.encode, self.encode.num_features, history=history, keep_first=keep_first)
            for _ in range(envs.num_envs)
        ]
        self._masks = np.ones((envs.num_envs, len(menu)), dtype=np.bool_)
        self._actions: list[str] = []
        box = spaces.Box(-1.0, 1.0, (self._stacks[0].length,), np.float32)
        super().__init__(envs.num_envs, box, spaces.Discrete(len(menu)))

    # ---- playing

    def reset(self) -> npt.NDArray[np.float32]:
        """Start an episode in every environment, with the seeds of ``seed`` or ``use_seeds`` if they were called."""
        if any(options != self._options[0] for options in self._options):
            raise ValueError("the environments of one batch take the same options; call set_options with one dict")
        seeds = None if all(seed is None for seed in self._seeds) else list(self._seeds)
        reset: Any = self.envs.reset  # Gymnasium's annotation knows no list of seeds
        texts, infos = reset(seed=seeds, options=dict(self._options[0]) or None)
        self._reset_seeds()
        self._reset_options()
        self.reset_infos = _split(infos, self.num_envs)
        for index, info in enumerate(self.reset_infos):
            self._masks[index] = self.menu.mask(info.get("commands"))
            info["action_mask"] = self._masks[index].copy()
        return np.stack([stack.reset(text) for stack, text in zip(self._stacks, texts, strict=True)])

    def use_seeds(self, seeds: Sequence[int]) -> None:
        """Set the seed of every environment's next episode (``seed`` sets consecutive ones).

        Raises:
            ValueError: There is not one seed an environment.
        """
        if len(seeds) != self.num_envs:
            raise ValueError(f"use_seeds needs {self.num_envs} seeds, one an environment, got {len(seeds)}")
        self._seeds = [int(seed) for seed in seeds]

    def step_async(self, actions: npt.NDArray[np.int64]) -> None:
        """Choose a command by its number in every environment; ``step_wait`` plays them."""
        texts = self.menu.texts
        self._actions = [texts[action] for action in np.asarray(actions).tolist()]

    def step_wait(self) -> VecEnvStepReturn:
        """Play the chosen commands; a finished environment starts its next episode in the same step."""
        texts, rewards, terminated, truncated, batch = self.envs.step(self._actions)
        dones = terminated | truncated
        infos = _split(batch, self.num_envs)
        observations = np.empty((self.num_envs, self._stacks[0].length), dtype=np.float32)
        for index, (stack, text) in enumerate(zip(self._stacks, texts, strict=True)):
            if dones[index]:
                infos[index] = self._ended(index, infos[index], bool(terminated[index]))
                observations[index] = stack.reset(text)
            else:
                observations[index] = stack.step(text)
                self._masks[index] = self.menu.mask(infos[index].get("commands"))
            infos[index]["action_mask"] = self._masks[index].copy()
        return observations, rewards.astype(np.float32), dones, infos

    def _ended(self, index: int, info: dict[str, Any], terminated: bool) -> dict[str, Any]:
        """Return the info of a play's last step, and take the mask of the episode that follows."""
        final = dict(info["final_info"])
        # Where the new episode says nothing about its commands, the batch still shows the ended one's very list.
        commands = info.get("commands")
        self._masks[index] = self.menu.mask(None if commands is final.get("commands") else commands)
        final["env_error"] = final.get("fault", "") != ""
        final["terminal_observation"] = self._stacks[index].step(info["final_obs"])
        final["TimeLimit.truncated"] = not terminated and (final["env_error"] or not self.turn_limit_is_loss)
        return final

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """Return which commands are available now: bool array of shape (num_envs, number of commands)."""
        return self._masks.copy()

    def close(self) -> None:
        """End the workers."""
        self.envs.close()

    # ---- what Stable-Baselines3 asks of a VecEnv

    def get_attr(self, attr_name: str, indices: int | Iterable[int] | None = None) -> list[Any]:
        """Return an attribute of the batch, once an environment; ``action_masks`` is a method of each."""
        places = list(self._get_indices(indices))
        if attr_name == "action_masks":
            return [self._mask_getter(place) for place in places]
        return [getattr(self.envs, attr_name)] * len(places)

    def set_attr(self, attr_name: str, value: Any, indices: int | Iterable[int] | None = None) -> None:
        """Refused: the environments of a batch cannot differ.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(f"the environments of a batch share their settings; cannot set {attr_name!r} in one")

    def env_method(
        self, method_name: str, *method_args: Any, indices: int | Iterable[int] | None = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method of each environment: ``action_masks`` is the only one.

        Raises:
            AttributeError: It is another one.
        """
        if method_name != "action_masks":
            raise AttributeError(f"environments in a batch have the method 'action_masks' only, not {method_name!r}")
        return [self._masks[place].copy() for place in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: type[Any], indices: int | Iterable[int] | None = None) -> list[bool]:
        """Return False for each environment: the batch has no wrapped single environments."""
        return [False for _ in self._get_indices(indices)]

    def _mask_getter(self, place: int) -> Callable[[], npt.NDArray[np.bool_]]:
        return lambda: self._masks[place].copy()


def _check(envs: gym.vector.VectorEnv[Any, Any, Any]) -> None:
    mode = envs.metadata.get("autoreset_mode")
    if mode != AutoresetMode.SAME_STEP:
        raise ValueError(
            f"Stable-Baselines3 needs the autoreset mode SameStep, got {mode}: "
            'gymnasium.make_vec(env_id, num_envs=64, autoreset_mode="SameStep")'
        )
    for kind, space in (("observation", envs.single_observation_space), ("action", envs.single_action_space)):
        if not is_text(space):
            raise TypeError(f"ProgramVecEnv needs a vector environment with text {kind}s, got the space {space}")


def _split(batch: dict[str, Any], num_envs: int) -> Infos:
    """Turn one dict of arrays (with ``_key`` telling where ``key`` is valid) into one dict an environment."""
    infos: Infos = [{} for _ in range(num_envs)]
    for key, values in batch.items():
        valid = batch.get(f"_{key}")
        if valid is None:
            continue
        if isinstance(values, dict):
            values = _split(values, num_envs)
        else:
            values = values.tolist() if isinstance(values, np.ndarray) else values
        for info, value, known in zip(infos, values, valid.tolist(), strict=True):
            if known:
                info[key] = value
    return infos
