"""A numbered menu of commands: text actions for agents that choose from a fixed set."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Discrete
from gymnasium.utils import RecordConstructorArgs

from spade_gym.envs.wrappers.text_spaces import need_text_actions
from spade_gym.errors import SpadeError
from spade_gym.programs.boxed import box, last_boxed
from spade_gym.programs.commands import discover, expand

#: Commands of one menu, at most: a policy with thousands of actions hardly learns by trying them.
MAX_COMMANDS = 512
#: Instances whose first observations are read when a program declares no commands. Those of the second half
#: must announce nothing that the first half did not.
_DISCOVERY_SEEDS = range(8)

_REMEDY = "Pass the commands yourself: ActionMenu(env, commands=['...', '...']), or spade-gym train ... --command"

_SHORTER = (
    "Pass a shorter list: ActionMenu(env, commands=['...', '...']), or spade-gym train ... --command; or a higher limit"
)


class MenuError(SpadeError):
    """An environment whose commands are unknown, endless or too many for a menu."""


@dataclass(frozen=True, slots=True)
class Menu:
    r"""A fixed list of commands; action i stands for the i-th.

    Attributes:
        commands: Bare commands, without duplicates.
        boxed: Whether the program gets them in ``\boxed{…}``.
        texts: What the program gets for each command.
    """

    commands: tuple[str, ...]
    boxed: bool = True
    texts: tuple[str, ...] = field(init=False)
    _places: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse an empty or ambiguous list."""
        if isinstance(self.commands, str) or not all(isinstance(item, str) for item in self.commands):
            raise MenuError(f"the commands of a menu must be a list of texts, got {self.commands!r}")
        commands = tuple(dict.fromkeys(self.commands))
        if not commands:
            raise MenuError(f"a menu needs at least one command, got none. {_REMEDY}")
        object.__setattr__(self, "commands", commands)
        object.__setattr__(self, "texts", tuple(map(box, commands)) if self.boxed else commands)
        object.__setattr__(self, "_places", {_bare(text): place for place, text in enumerate(commands)})

    def __len__(self) -> int:
        return len(self.commands)

    def mask(self, available: Iterable[str] | None) -> npt.NDArray[np.bool_]:
        """Tell which actions are available.

        Args:
            available: Commands, boxed or not; those that the menu does not hold are ignored. ``None``: unknown.

        Returns:
            Bool array of shape (len(menu),). All true where nothing is known, or where no command of the menu is
            among ``available``: a policy must be able to choose something.
        """
        mask = np.zeros(len(self.commands), dtype=np.bool_)
        for command in available or ():
            place = self._places.get(_bare(command))
            if place is not None:
                mask[place] = True
        return mask if mask.any() else ~mask


def menu_of(
    env: gym.Env[Any, Any],
    commands: Sequence[str] | None = None,
    *,
    boxed: bool | None = None,
    limit: int = MAX_COMMANDS,
) -> Menu:
    r"""Find out which commands an environment takes.

    In this order: ``commands``; those that the program's manifest declares; those that the first observations of
    eight instances announce, if they are evidently all; the attribute ``commands`` of a foreign environment.

    Args:
        env: A text environment. If its program declares no commands it is reset, so reset it again afterwards.
        commands: Commands or templates (``open {1..3}``, ``go {north|south}``).
        boxed: Whether commands are put into ``\boxed{…}``; absent: unless the program is a tool-use program.
        limit: The largest menu allowed.

    Raises:
        MenuError: The commands are unknown, endless, different from instance to instance, or more than ``limit``.
    """
    program = getattr(env.unwrapped, "program", None)
    name = program.name if program is not None else str(env)
    tool_use = program is not None and program.setting == "tool_use"
    boxed = not tool_use if boxed is None else boxed
    if commands is not None:
        return Menu(_expand(commands, limit, name), boxed)
    if tool_use:
        raise MenuError(
            f"{name} is a tool-use program: its calls take free arguments, so it has no finite menu. Train a language "
            f"model on it, or pass the texts of the calls yourself: ActionMenu(env, commands=['<tool_call>...'])"
        )
    if program is not None and program.manifest.commands:
        return Menu(_expand(program.manifest.commands, limit, name), boxed)
    if program is not None:
        return Menu(_announced(env, limit, name), boxed)
    offered = getattr(env.unwrapped, "commands", ())
    if not offered:
        raise MenuError(f"{name} has no attribute 'commands', or it is empty. {_REMEDY}")
    return Menu(_within(tuple(offered), limit, name), boxed)


class ActionMenu(gym.Wrapper[Any, Any, Any, str], RecordConstructorArgs):
    r"""Makes the actions of a text environment a choice from a menu: ``Discrete(number of commands)``.

    ``info["action_mask"]`` and ``action_masks()`` (for sb3-contrib's MaskablePPO) say which commands are available
    now, from ``info["commands"]``; where the program does not say, all are.

    Args:
        env: An environment with text actions.
        commands: Commands or templates; absent: those that :func:`menu_of` finds. A program that declares none is
            reset for that, so call ``reset`` before ``step`` as always.
        boxed: Whether commands are put into ``\boxed{…}``; absent: unless the program is a tool-use program.
        limit: The largest menu allowed.

    Raises:
        MenuError: No finite menu of at most ``limit`` commands can be made; the message names a remedy.
        TypeError: The actions are no texts.

    Example:
        >>> import gymnasium as gym, spade_gym
        >>> from spade_gym.envs.wrappers import ActionMenu
        >>> env = ActionMenu(gym.make("spade/BeaconWalk-v0"))
        >>> env.action_space
        Discrete(4)
        >>> env.menu.commands
        ('go north', 'go east', 'go south', 'go west')
        >>> _, info = env.reset(seed=1)
        >>> info["action_mask"]
        array([ True,  True,  True,  True])
    """

    def __init__(
        self,
        env: gym.Env[Any, str],
        commands: Sequence[str] | None = None,
        *,
        boxed: bool | None = None,
        limit: int = MAX_COMMANDS,
    ) -> None:
        RecordConstructorArgs.__init__(self, commands=commands, boxed=boxed, limit=limit)
        super().__init__(env)
        need_text_actions(env, "ActionMenu")
        self.menu = menu_of(env, commands, boxed=boxed, limit=limit)
        self.action_space = Discrete(len(self.menu))
        self._mask = self.menu.mask(None)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode; the info gets ``action_mask``."""
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, self._masked(info)

    def step(self, action: np.int64 | int) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Play one command by its number; the info gets ``action_mask``.

        Raises:
            ValueError: There is no such number.
        """
        observation, reward, terminated, truncated, info = self.env.step(self.text_of(action))
        return observation, reward, terminated, truncated, self._masked(info)

    def text_of(self, action: np.int64 | int) -> str:
        """Return the text that the program gets for an action.

        Raises:
            ValueError: There is no such number.
        """
        place = operator.index(action)
        if not 0 <= place < len(self.menu):
            raise ValueError(f"an action must be from 0 to {len(self.menu) - 1}, got {place}")
        return self.menu.texts[place]

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """Return which actions are available now: bool array of shape (number of commands,)."""
        return self._mask.copy()

    def _masked(self, info: dict[str, Any]) -> dict[str, Any]:
        self._mask = self.menu.mask(info.get("commands"))
        return {**info, "action_mask": self._mask.copy()}


def _bare(command: str) -> str:
    inner = last_boxed(command)
    return (command if inner is None else inner).strip()


def _expand(templates: Sequence[str], limit: int, name: str) -> tuple[str, ...]:
    if isinstance(templates, str):
        raise MenuError(f"commands must be a list of texts, got the text {templates!r}")
    try:
        return expand(tuple(templates), limit)
    except ValueError as error:
        raise MenuError(f"the commands of {name} make no menu of at most {limit}: {error}. {_SHORTER}") from error


def _within(commands: tuple[str, ...], limit: int, name: str) -> tuple[str, ...]:
    if len(commands) > limit:
        raise MenuError(f"{name} has {len(commands)} commands, more than the {limit} of a menu. {_SHORTER}")
    return commands


def _announced(env: gym.Env[Any, Any], limit: int, name: str) -> tuple[str, ...]:
    """Read the commands of a program that declares none from the first observations of several instances."""
    found: dict[str, None] = {}
    settled = 0
    for count, seed in enumerate(_DISCOVERY_SEEDS):
        observation, info = env.reset(seed=seed)
        announced = discover(observation)
        if not announced.finite:
            free = f" (free places: {', '.join(map(repr, announced.templates[:3]))})" if announced.templates else ""
            raise MenuError(
                f"{name} declares no commands, and the first observation of seed {seed} does not announce a complete "
                f"finite list of them{free}. {_REMEDY}, or declare them in the program's manifest"
            )
        found.update(dict.fromkeys((*announced.commands, *info.get("commands", ()))))
        if count < len(_DISCOVERY_SEEDS) // 2:
            settled = len(found)
    _forget_seed(env)
    if len(found) > settled:
        raise MenuError(
            f"{name} declares no commands, and those it announces differ from instance to instance: the seeds 0 to "
            f"{len(_DISCOVERY_SEEDS) - 1} give {len(found)} in all. {_REMEDY}, or declare them in its manifest"
        )
    return _within(tuple(found), limit, name)


def _forget_seed(env: gym.Env[Any, Any]) -> None:
    """Let the next ``reset()`` draw a fresh seed, as in an environment that was never reset."""
    env.unwrapped._np_random = None
    env.unwrapped._np_random_seed = None
