from __future__ import annotations

import gymnasium as gym
import pytest
from doors import DoorsEnv

from spade_gym.envs.wrappers import BoxedAction


def test_puts_bare_texts_into_a_box():
    env = BoxedAction(DoorsEnv())
    env.reset(seed=1)
    env.step("go north")
    assert env.unwrapped.heard == ["\\boxed{go north}"]


def test_leaves_a_text_with_a_box_alone():
    env = BoxedAction(DoorsEnv())
    reply = "I think \\boxed{go east}"
    assert env.action(reply) == reply
    assert env.action(env.action("go east")) == "\\boxed{go east}"


def test_refuses_actions_that_are_no_texts():
    with pytest.raises(TypeError, match="BoxedAction needs an environment with text actions"):
        BoxedAction(gym.make("CartPole-v1"))
