r"""Bare text actions, put into ``\boxed{…}`` for the program."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from spade_gym.envs.wrappers.text_spaces import need_text_actions
from spade_gym.programs.boxed import box


class BoxedAction(gym.ActionWrapper[Any, str, str], RecordConstructorArgs):
    r"""Puts each action into ``\boxed{…}``; one that holds a box already is passed on unchanged.

    Game programs read their commands from a box. An agent that writes bare commands needs this wrapper, one
    that writes whole replies with a box in them is not disturbed by it.

    Args:
        env: An environment with text actions.

    Raises:
        TypeError: The actions are no texts.

    Example:
        >>> import gymnasium as gym, spade_gym
        >>> from spade_gym.envs.wrappers import BoxedAction
        >>> env = BoxedAction(gym.make("spade/BeaconWalk-v0"))
        >>> env.action("go north")
        '\\boxed{go north}'
        >>> env.action(env.action("go north"))
        '\\boxed{go north}'
    """

    def __init__(self, env: gym.Env[Any, str]) -> None:
        RecordConstructorArgs.__init__(self)
        super().__init__(env)
        need_text_actions(env, "BoxedAction")

    def action(self, action: str) -> str:
        """Return the action in a box."""
        return box(action)
