"""Does an environment speak text? Wrappers ask before they are put around it."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from gymnasium.spaces import Space, Text

from spade_gym.envs.spaces import Unicode


def is_text(space: Space[Any]) -> bool:
    """Whether the elements of a space are texts (``Unicode``, or Gymnasium's ``Text``)."""
    return isinstance(space, Unicode | Text)


def need_text_observations(env: gym.Env[Any, Any], wrapper: str) -> None:
    """Refuse an environment whose observations are no texts.

    Raises:
        TypeError: Its observation space is neither ``Unicode`` nor ``Text``.
    """
    _need(env.observation_space, "observation", env, wrapper)


def need_text_actions(env: gym.Env[Any, Any], wrapper: str) -> None:
    """Refuse an environment whose actions are no texts.

    Raises:
        TypeError: Its action space is neither ``Unicode`` nor ``Text``.
    """
    _need(env.action_space, "action", env, wrapper)


def _need(space: Space[Any], kind: str, env: gym.Env[Any, Any], wrapper: str) -> None:
    if not is_text(space):
        raise TypeError(
            f"{wrapper} needs an environment with text {kind}s (the space Unicode or Text); {env} has the {kind} "
            f"space {space}. Put {wrapper} directly around the text environment, inside other wrappers."
        )
