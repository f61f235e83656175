from __future__ import annotations

import copy
import pickle

import gymnasium as gym
import numpy as np
import pytest
from doors import DoorsEnv
from gymnasium.utils.env_checker import check_env

import spade_gym
from spade_gym.envs.wrappers import ActionMenu, HashObs, Menu, MenuError

GUESSING = """
class GuessingEnv:
    def __init__(self, max_turns=3, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        self.turn = 0
        return "{ANNOUNCEMENT}", {}

    def step(self, action):
        self.turn += 1
        return f"heard {action}", 0.0, False, self.turn >= self.max_turns, {}
"""


def guessing(announcement: str, **manifest: object) -> spade_gym.ProgramEnv:
    source = GUESSING.replace("{ANNOUNCEMENT}", announcement.replace("\\", "\\\\"))
    facts = {"name": "Guessing", "setting": "multi_turn", "class_name": "GuessingEnv", **manifest}
    return spade_gym.ProgramEnv(spade_gym.Program(source, spade_gym.Manifest(**facts)))


def test_a_number_plays_the_boxed_command():
    env = ActionMenu(DoorsEnv())
    env.reset(seed=1)
    observation, *_ = env.step(2)
    assert env.action_space == gym.spaces.Discrete(4)
    assert observation == "Tried \\boxed{go south}."


def test_masks_follow_the_commands_in_info():
    env = ActionMenu(DoorsEnv())
    env.reset(seed=0)
    assert env.action_masks().tolist() == [True, True, True, True]
    wrong = next(place for place, text in enumerate(env.menu.commands) if text != f"go {env.unwrapped.open}")
    *_, info = env.step(wrong)
    expected = [place != wrong for place in range(4)]
    assert env.action_masks().tolist() == expected
    assert info["action_mask"].tolist() == expected
    assert info["action_mask"].dtype == np.bool_


def test_mask_ignores_unknown_commands_and_reads_boxes():
    menu = Menu(("look", "open 1", "open 2"))
    assert menu.mask(["dance", "\\boxed{open 1}", " look "]).tolist() == [True, True, False]


def test_mask_is_never_empty():
    menu = Menu(("look", "open 1"))
    assert menu.mask(["dance"]).tolist() == [True, True]
    assert menu.mask([]).tolist() == [True, True]
    assert menu.mask(None).tolist() == [True, True]


def test_menu_takes_templates_and_drops_duplicates():
    env = ActionMenu(DoorsEnv(), ["open {1..3}", "look", "open 2"])
    assert env.menu.commands == ("open 1", "open 2", "open 3", "look")


def test_unboxed_menu_passes_commands_on():
    env = ActionMenu(DoorsEnv(), boxed=False)
    assert env.text_of(0) == "go north"


def test_too_many_commands_are_refused_with_a_remedy():
    with pytest.raises(MenuError, match=r"more than 512 commands.*Pass a shorter list"):
        ActionMenu(DoorsEnv(), ["number {1..513}"])
    with pytest.raises(MenuError, match=r"has 4 commands, more than the 3.*Pass a shorter list"):
        ActionMenu(DoorsEnv(), limit=3)


def test_environment_without_commands_is_refused_with_a_remedy():
    with pytest.raises(MenuError, match=r"no attribute 'commands'.*Pass the commands yourself"):
        ActionMenu(DoorsEnv(commands=()))


def test_a_text_is_no_list_of_commands():
    with pytest.raises(MenuError, match="must be a list of texts, got the text 'look'"):
        ActionMenu(DoorsEnv(), "look")


@pytest.mark.parametrize("action", [-1, 4])
def test_numbers_outside_the_menu_are_refused(action):
    env = ActionMenu(DoorsEnv())
    env.reset(seed=1)
    with pytest.raises(ValueError, match=f"from 0 to 3, got {action}"):
        env.step(action)


def test_declared_commands_are_expanded():
    env = ActionMenu(gym.make("spade/BeaconWalk-v0"))
    assert env.menu.commands == ("go north", "go east", "go south", "go west")


def test_announced_commands_are_found_when_none_are_declared():
    env = ActionMenu(guessing("Commands: \\boxed{up}, \\boxed{down}."))
    assert env.menu.commands == ("up", "down")
    assert env.unwrapped.np_random_seed != 7  # the instances read for the menu leave no seed behind
    env.close()


def test_free_places_are_refused_with_a_remedy():
    env = guessing("Answer with \\boxed{<number>}.")
    with pytest.raises(MenuError, match=r"Guessing declares no commands.*Pass the commands yourself"):
        ActionMenu(env)
    env.close()


def test_tool_use_programs_have_no_menu():
    with pytest.raises(MenuError, match="LarderFiles is a tool-use program"):
        ActionMenu(gym.make("spade/LarderFiles-v0"))


def test_checker_accepts_it_over_a_program():
    env = HashObs(ActionMenu(gym.make("spade/BeaconWalk-v0").unwrapped), num_features=32)
    env.unwrapped.spec = None
    with pytest.warns(UserWarning, match="different from the unwrapped version"):
        check_env(env, skip_render_check=True)
    env.close()


def test_copies_play_on_alike():
    env = ActionMenu(DoorsEnv())
    env.reset(seed=3)
    for other in (pickle.loads(pickle.dumps(env)), copy.deepcopy(env)):
        assert other.menu == env.menu
        assert other.step(1)[0] == "Tried \\boxed{go east}."


def test_the_spec_records_the_wrapper():
    env = ActionMenu(gym.make("spade/BeaconWalk-v0"), ["go north"])
    (wrapper,) = env.spec.additional_wrappers[-1:]
    assert wrapper.name == "ActionMenu"
    assert wrapper.kwargs == {"commands": ["go north"], "boxed": None, "limit": 512}
