from __future__ import annotations

import re

import gymnasium
import pytest
from conftest import COUNTER, make_program

import spade_gym
from spade_gym.errors import PoolError
from spade_gym.locate import folder_name, program_name
from spade_gym.pool import registry


def test_folders_of_bundled_programs_carry_their_names() -> None:
    for folder in registry().path.iterdir():
        if (folder / "manifest.toml").exists():
            name = program_name(folder.name)
            assert re.search(rf'^name = "{name}"$', (folder / "manifest.toml").read_text(), re.M), folder.name
            assert folder_name(name) == folder.name


def test_a_pool_is_registered_under_its_namespace_and_again_after_an_edit(tmp_path) -> None:
    pool = spade_gym.Pool(tmp_path)
    pool.add(make_program())
    assert spade_gym.register_pool(tmp_path, namespace="mine") == ("mine/Counter-v0",)
    env = gymnasium.make("mine/Counter-v0")
    env.reset(seed=1)
    assert env.step("win")[0] == "You win."
    env.close()
    edited = make_program(COUNTER.replace("You win.", "You really win."), name="Edited")
    pool.add(edited)
    assert spade_gym.register_pool(tmp_path, namespace="mine") == ("mine/Counter-v0", "mine/Edited-v0")
    pool.add(make_program(COUNTER.replace("You win.", "Won.")))
    ids = spade_gym.register_pool(tmp_path, namespace="mine")
    assert len(ids) == 3
    assert "mine/Counter-v0" not in ids
    assert "mine/Counter-v0" not in gymnasium.registry
    vector = gymnasium.make_vec("mine/Edited-v0", num_envs=2)
    vector.reset(seed=1)
    assert vector.step(["win", "win"])[0] == ("You really win.",) * 2
    vector.close()
    assert spade_gym.ProgramEnv("mine/Edited").program == edited
    assert spade_gym.ProgramEnv("mine/Edited-v0").program == edited


def test_bad_pools_and_namespaces_are_refused(tmp_path) -> None:
    with pytest.raises(PoolError, match="holds no programs"):
        spade_gym.register_pool(tmp_path, namespace="mine")
    with pytest.raises(TypeError, match="namespace must be text, got int: 5"):
        spade_gym.register_pool(tmp_path, namespace=5)
    with pytest.raises(TypeError, match="path of a pool must be a path"):
        spade_gym.register_pool(None, namespace="mine")
    for namespace in ("spade", "a b", "a/b"):
        with pytest.raises(PoolError, match="namespace must be a word"):
            spade_gym.register_pool(tmp_path, namespace=namespace)
    folder = spade_gym.Pool(tmp_path).add(make_program())
    (folder / "program.py").write_text("tampered = 1\n")
    with pytest.raises(PoolError, match="damaged"):
        spade_gym.register_pool(tmp_path, namespace="mine")
