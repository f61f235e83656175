from __future__ import annotations

import importlib.util
import pickle

import numpy as np
import pytest
from doors import DoorsEnv

from spade_gym.envs.wrappers import EmbedObs
from spade_gym.errors import SpadeError


def letters(text: str) -> list[int]:
    return [text.count("e"), text.count("o"), len(text)]


class Counting:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, text: str) -> np.ndarray:
        self.calls += 1
        return np.array([len(text)])


def test_a_function_makes_the_vectors():
    env = EmbedObs(DoorsEnv(), letters)
    observation, _ = env.reset(seed=0)
    assert observation.tolist() == letters(f"The {env.unwrapped.open} door is open.")
    assert observation in env.observation_space
    assert env.observation_space.shape == (3,)


def test_equal_texts_are_embedded_once():
    embed = Counting()
    env = EmbedObs(DoorsEnv(), embed)
    for _ in range(3):
        env.reset(seed=0)
    assert embed.calls == 2  # one to learn the dimension


def test_observations_are_not_shared_with_the_cache():
    env = EmbedObs(DoorsEnv(), letters)
    env.reset(seed=0)[0][:] = -1.0
    assert (env.reset(seed=0)[0] >= 0).all()


def test_missing_extra_names_the_command():
    if importlib.util.find_spec("sentence_transformers"):
        pytest.skip("sentence-transformers is installed")
    with pytest.raises(SpadeError, match=r'pip install "spade-gym\[embed\]"'):
        EmbedObs(DoorsEnv())


def test_bad_embeddings_are_named():
    with pytest.raises(ValueError, match=r"must return a vector, got an array of shape \(1, 1\)"):
        EmbedObs(DoorsEnv(), lambda text: [[1.0]])
    env = EmbedObs(DoorsEnv(), lambda text: [1.0] if text == "probe" else [np.nan])
    with pytest.raises(ValueError, match=r"finite vectors of shape \(1,\)"):
        env.reset(seed=0)


def test_pickle():
    env = EmbedObs(DoorsEnv(), letters)
    env.reset(seed=0)
    assert pickle.loads(pickle.dumps(env)).observation("eo").tolist() == [1, 1, 2]
