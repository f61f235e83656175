from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("stable_baselines3", reason="Stable-Baselines3 is not installed (extra sb3)")

from lamps import lamps
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.vec_env import VecMonitor

import spade_gym
from spade_gym.envs.wrappers import ActionMenu, HashedText, HashObs, Menu
from spade_trainers.sb3.vec_env import ProgramVecEnv

MENU = Menu(("press red", "press green", "press blue"))
FEATURES = 32


def make(num_envs: int = 2, *, faults: bool = False, mode: str = "SameStep", **options: object) -> ProgramVecEnv:
    envs = spade_gym.ProgramVectorEnv(num_envs, program=lamps(faults=faults), autoreset_mode=mode)
    return ProgramVecEnv(envs, MENU, HashedText(FEATURES), **options)


def lit(envs: ProgramVecEnv, index: int) -> int:
    """Return the number of the command that is right now."""
    text = envs.envs._observations[index]
    return next(place for place, command in enumerate(MENU.commands) if command.split()[1] in text)


@pytest.mark.parametrize(("history", "keep_first"), [(1, False), (2, True)])
def test_trajectories_are_those_of_the_wrapped_single_environment(history, keep_first):
    stack = {"history": history, "keep_first": keep_first}
    single = HashObs(ActionMenu(spade_gym.ProgramEnv(lamps())), FEATURES, **stack)
    batch = make(3, **stack)
    batch.use_seeds([5, 6, 7])
    observations = batch.reset()
    expected, info = single.reset(seed=6)
    actions = np.random.default_rng(0).integers(3, size=(40, 3))
    for row in actions:
        assert observations[1].tolist() == expected.tolist()
        assert batch.action_masks()[1].tolist() == single.get_wrapper_attr("action_masks")().tolist()
        observations, rewards, dones, infos = batch.step(row)
        expected, reward, terminated, truncated, info = single.step(row[1])
        assert rewards[1] == pytest.approx(reward)
        assert dones[1] == (terminated or truncated)
        assert infos[1]["is_success"] == info["is_success"]
        if dones[1]:
            assert infos[1]["terminal_observation"].tolist() == expected.tolist()
            assert infos[1]["TimeLimit.truncated"] == (truncated and not terminated)
            expected, info = single.reset()
    batch.close()
    single.close()


def test_a_won_play_is_a_success_with_statistics():
    envs = VecMonitor(make(1))
    envs.seed(0)
    envs.reset()
    for _ in range(2):
        envs.step(np.array([lit(envs.venv, 0)]))
    _, _, dones, (info,) = envs.step(np.array([lit(envs.venv, 0)]))
    assert dones.tolist() == [True]
    assert info["is_success"] is True
    assert info["env_error"] is False
    assert info["TimeLimit.truncated"] is False
    assert info["episode"]["r"] == pytest.approx(1.0)
    assert info["episode"]["l"] == 3
    envs.close()


@pytest.mark.parametrize(("turn_limit_is_loss", "bootstrapped"), [(False, True), (True, False)])
def test_turn_limits_are_time_limits_unless_told_otherwise(turn_limit_is_loss, bootstrapped):
    envs = make(1, turn_limit_is_loss=turn_limit_is_loss)
    envs.seed(0)
    envs.reset()
    for _ in range(4):
        _, _, dones, (info,) = envs.step(np.array([(lit(envs, 0) + 1) % 3]))
    assert dones.tolist() == [True]
    assert info["is_success"] is False
    assert info["TimeLimit.truncated"] is bootstrapped
    envs.close()


def test_a_fault_is_flagged_and_never_a_loss():
    envs = make(2, faults=True, turn_limit_is_loss=True)
    envs.seed(0)
    envs.reset()
    envs.step(np.array([1, 1]))
    _, rewards, dones, infos = envs.step(np.array([0, 1]))
    assert dones.tolist() == [True, False]
    assert rewards[0] == 0.0
    assert infos[0]["env_error"] is True
    assert "a lamp broke" in infos[0]["fault"]
    assert infos[0]["TimeLimit.truncated"] is True
    assert infos[0]["terminal_observation"].shape == (FEATURES,)
    envs.close()


def test_masks_follow_the_program_and_start_anew_with_each_episode():
    envs = make(1)
    envs.seed(0)
    envs.reset()
    masks = [envs.env_method("action_masks")[0].tolist()]
    for _ in range(4):
        _, _, _, (info,) = envs.step(np.array([(lit(envs, 0) + 1) % 3]))
        masks.append(info["action_mask"].tolist())
    two, three, one = [True, True, False], [True, True, True], [True, False, False]
    # After turns 1, 2, 3 the program names two, three, one commands; turn 4 begins another episode.
    assert masks == [three, two, three, one, three]
    assert envs.has_attr("action_masks")
    envs.close()


def test_seeds_hold_for_one_reset():
    envs = make(2)
    envs.seed(3)
    envs.reset()
    assert envs.envs.instance_seeds == (3, 4)
    envs.reset()
    assert envs.envs.instance_seeds != (3, 4)
    envs.use_seeds([2**31, 9])
    envs.reset()
    assert envs.envs.instance_seeds == (2**31, 9)
    with pytest.raises(ValueError, match="use_seeds needs 2 seeds, one an environment, got 1"):
        envs.use_seeds([1])
    envs.close()


def test_other_autoreset_modes_are_refused_with_a_remedy():
    with pytest.raises(ValueError, match=r'needs the autoreset mode SameStep.*autoreset_mode="SameStep"'):
        make(mode="NextStep")


def test_vectors_without_texts_are_refused():
    envs = gym.make_vec(
        "CartPole-v1", vector_kwargs={"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}, vectorization_mode="sync"
    )
    with pytest.raises(TypeError, match="text observations, got the space Box"):
        ProgramVecEnv(envs, MENU)
    envs.close()


def test_unknown_methods_and_attributes_are_refused():
    envs = make(1)
    with pytest.raises(AttributeError, match="have the method 'action_masks' only, not 'fly'"):
        envs.env_method("fly")
    with pytest.raises(NotImplementedError, match="cannot set 'limits'"):
        envs.set_attr("limits", None)
    assert not envs.has_attr("fly")
    assert envs.env_is_wrapped(gym.Wrapper) == [False]
    envs.close()


def test_single_environments_pass_the_checker_of_stable_baselines():
    env = HashObs(ActionMenu(spade_gym.ProgramEnv(lamps())), FEATURES)
    check_env(env)
    env.close()


def test_maskable_ppo_finds_the_masks():
    contrib = pytest.importorskip("sb3_contrib", reason="sb3-contrib is not installed")
    envs = VecMonitor(make(2))
    model = contrib.MaskablePPO("MlpPolicy", envs, n_steps=8, batch_size=16, n_epochs=1, seed=0)
    model.learn(16)
    assert model.num_timesteps == 16
    envs.close()
