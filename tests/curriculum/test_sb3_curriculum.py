from __future__ import annotations

import functools
import warnings
from pathlib import Path
from typing import Any

import pytest
from families import lengths, walk, walks

from spade_gym.curriculum import preset
from spade_gym.curriculum.curriculum_env import CurriculumEnv
from spade_gym.curriculum.durable import DurableCurriculum
from spade_gym.curriculum.generators import Listed
from spade_gym.curriculum.service import CurriculumServer
from spade_gym.curriculum.store import Store
from spade_gym.errors import SpadeError

pytest.importorskip("stable_baselines3")

from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import CheckpointCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

from spade_trainers.sb3.curriculum_callback import CurriculumCallback, load_curriculum

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:You are trying to run PPO")


def learn(envs: Any, callback: Any = None) -> None:
    PPO("MlpPolicy", envs, n_steps=32, batch_size=32, n_epochs=1, device="cpu").learn(128, callback=callback)
    envs.close()


def safe(address: Any) -> CurriculumEnv:
    """Actions 0 and 1 only: the others fail on purpose."""
    import gymnasium

    env = CurriculumEnv(walk, address)
    env.action_space = gymnasium.spaces.Discrete(2)
    env._environments.action_space = env.action_space
    env._environments._check_spaces = lambda *_: None  # type: ignore[method-assign]
    return env


def test_dummy_vec_env_and_checkpoints(tmp_path: Path) -> None:
    curriculum = walks(2, 3, kind="reset")
    envs = make_vec_env(functools.partial(safe, curriculum), n_envs=2, vec_env_cls=DummyVecEnv)
    callback = CurriculumCallback(curriculum, 16, tmp_path)
    learn(envs, [CheckpointCallback(16, str(tmp_path)), callback])
    models = {path.stem.removeprefix("rl_model_") for path in tmp_path.glob("rl_model_[0-9]*.zip")}
    states = {path.stem.removeprefix("rl_model_curriculum_") for path in tmp_path.glob("*curriculum*.json")}
    assert models == states == {"32_steps", "64_steps", "96_steps", "128_steps"}
    assert curriculum.receipts["counted"] >= 40
    again = walks(2, 3, kind="reset")
    load_curriculum(again, callback.save())
    assert again.ask() == curriculum.ask()
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(SpadeError, match="cannot be read"):
        load_curriculum(again, tmp_path / "bad.json")


def test_plays_that_are_only_for_scoring_are_warned_of_once(tmp_path: Path) -> None:
    for name, told in (("robust-plr", 1), ("plr", 0)):
        curriculum = preset.make(name, generator=Listed(lengths(2, 3, kind="reset")))
        envs = make_vec_env(functools.partial(safe, curriculum), n_envs=2, vec_env_cls=DummyVecEnv)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            learn(envs, CurriculumCallback(curriculum, 0, tmp_path))
        found = [str(item.message) for item in caught if "only for scoring" in str(item.message)]
        assert len(found) == told
        assert {item.category for item in caught if str(item.message) in found} == ({UserWarning} if told else set())


def test_a_model_that_was_loaded_goes_on_counting_rollouts(tmp_path: Path) -> None:
    store = Store(tmp_path / "run")
    with DurableCurriculum(walks(2, 3, kind="reset"), store) as curriculum:
        for total in (64, 128):
            envs = make_vec_env(functools.partial(safe, curriculum), n_envs=2, vec_env_cls=DummyVecEnv)
            if total == 64:
                model = PPO("MlpPolicy", envs, n_steps=32, batch_size=32, n_epochs=1, device="cpu")
            else:
                model = PPO.load(tmp_path / "model.zip", env=envs, device="cpu")
            callback = CurriculumCallback(curriculum, 0, tmp_path)
            model.learn(total - model.num_timesteps, callback=callback, reset_num_timesteps=False)
            model.save(tmp_path / "model.zip")
            envs.close()
        assert {told.outcome.policy_version for told in store.outcomes() if told.outcome.status == "ok"} == {0, 1}


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_subproc_vec_env(method: str, tmp_path: Path) -> None:
    store = Store(tmp_path / "run")
    with DurableCurriculum(walks(2, 3, kind="reset"), store) as curriculum, CurriculumServer(curriculum) as server:
        envs = make_vec_env(
            functools.partial(safe, server.address), n_envs=2, vec_env_cls=SubprocVecEnv,
            vec_env_kwargs={"start_method": method},
        )  # fmt: skip
        learn(envs, CurriculumCallback(server, 32, tmp_path))
        told = [entry.outcome for entry in store.outcomes()]
        assert sum(outcome.status == "ok" for outcome in told) >= 40
        assert {outcome.policy_version for outcome in told} == {0, 1}
        assert len(list(tmp_path.glob("rl_model_curriculum_*_steps.json"))) == 2
