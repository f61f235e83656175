from __future__ import annotations

import warnings
from typing import Any

import gymnasium
import pytest
from families import Fixed, lengths, walk
from gymnasium.spaces import Box, Discrete

from spade_gym.curriculum import preset
from spade_gym.curriculum.curriculum_env import CurriculumEnv
from spade_gym.curriculum.generators import Parameters
from spade_gym.curriculum.task import Task


class Lamp(gymnasium.Env[Any, Any]):
    """Reads the option ``colour``, keeps half of ``size``, and ignores ``height``; ``_depth`` is under another name."""

    observation_space = Box(0, 1)
    action_space = Discrete(2)
    colour, size, height, depth = "red", 4, 1.5, 2

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        given = dict(options or {})
        self.seen = given.get("colour")
        self._halve(given)
        return self.observation_space.sample(), {}

    def _halve(self, given: dict[str, Any]) -> None:
        self.size = given.get("size", 8) // 2


def play(kind: Any, *values: dict[str, Any]) -> list[str]:
    """Reset once for each value; return the warnings."""
    env = CurriculumEnv(Lamp, Fixed(*(Task(kind, value) for value in values)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in values:
            env.reset()
            env._give_up()
    return [str(item.message) for item in caught]


def test_an_option_that_is_ignored_is_warned_of_once() -> None:
    (message,) = play("reset", {"height": 2.5}, {"height": 3.5})
    assert message == (
        "tasks of kind 'reset' give Lamp the option 'height', and it seems to ignore it: its attribute height stayed "
        "1.5. To set the attribute, make the tasks of kind 'attribute': Parameters(…, kind=\"attribute\")"
    )


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("reset", {"height": 1.5}),  # the same: nothing can be told
        ("reset", {"colour": "blue"}),  # its reset names it
        ("reset", {"size": 20}),  # its attribute has changed
        ("reset", {"width": 3}),  # it has no such attribute
        ("attribute", {"height": 2.5}),
    ],
)
def test_where_nothing_can_be_told_there_is_no_warning(kind: str, value: dict[str, Any]) -> None:
    assert play(kind, value) == []


def test_a_later_play_is_warned_of_too() -> None:
    assert len(play("reset", {"height": 1.5}, {"height": 3.5})) == 1


def test_cartpole_with_the_default_kind() -> None:
    ranges = {"gravity": (4.0, 40.0)}
    env = CurriculumEnv("CartPole-v1", preset.make(generator=Parameters(ranges), return_range=(0.0, 500.0)))
    with pytest.warns(UserWarning, match=r"'gravity'.* stayed 9\.8\. .*kind=\"attribute\""):
        env.reset()
    inner = env.inner
    assert inner is not None
    assert inner.unwrapped.gravity == 9.8  # type: ignore[attr-defined]
    env.reset()  # and not again


def test_a_family_that_keeps_its_options_is_not_warned_of() -> None:
    env = CurriculumEnv(walk, Fixed(*lengths(4, 6, kind="reset")))
    env.reset()
    assert env.inner is not None
    env.close()
    assert env.inner is None
