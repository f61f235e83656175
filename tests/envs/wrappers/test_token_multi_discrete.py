from __future__ import annotations

import pickle

import gymnasium as gym
import numpy as np
import pytest
from doors import DoorsEnv
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st

from spade_gym.envs.wrappers import TokenMultiDiscrete

WORDS = ("<pad>", "the", "door", "north", "east", "south", "west", "is", "open")


class WordTokenizer:
    vocab_size = len(WORDS)

    def encode(self, text):
        return [WORDS.index(word) for word in text.lower().rstrip(".").split() if word in WORDS]

    def decode(self, ids):
        return " ".join(WORDS[place] for place in ids)


def test_bytes_are_padded_and_read_back():
    env = TokenMultiDiscrete(DoorsEnv(), length=6)
    assert env.encode("hé").tolist() == [104, 195, 169, 256, 256, 256]
    assert env.decode(env.encode("hé")) == "hé"
    assert env.observation_space == gym.spaces.MultiDiscrete([257] * 6)


def test_long_texts_keep_their_end_or_start():
    assert TokenMultiDiscrete(DoorsEnv(), length=3).encode("abcde").tolist() == [99, 100, 101]
    assert TokenMultiDiscrete(DoorsEnv(), length=3, keep="start").encode("abcde").tolist() == [97, 98, 99]


def test_a_character_cut_apart_is_marked():
    env = TokenMultiDiscrete(DoorsEnv(), length=1)
    assert env.decode(env.encode("é")) == "\ufffd"


def test_actions_are_decoded_on_request():
    env = TokenMultiDiscrete(DoorsEnv(), length=64, action_length=16)
    env.reset(seed=0)
    observation, *_ = env.step(env.encode("\\boxed{go west}", length=16))
    assert env.decode(observation) == "Tried \\boxed{go west}."
    assert observation in env.observation_space
    assert env.action_space.shape == (16,)


def test_a_tokenizer_with_its_own_pad():
    env = TokenMultiDiscrete(DoorsEnv(), length=6, tokenizer=WordTokenizer(), pad_id=0)
    observation, _ = env.reset(seed=0)
    assert env.observation_space == gym.spaces.MultiDiscrete([9] * 6)
    assert env.decode(observation) == f"the {env.unwrapped.open} door is open"


def test_ids_outside_the_vocabulary_are_named():
    env = TokenMultiDiscrete(DoorsEnv(), tokenizer=WordTokenizer(), vocab_size=3)
    with pytest.raises(ValueError, match="gave the ids 1 to 8, outside 0 to 2"):
        env.encode("the open door")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"length": 0}, "length must be a positive whole number, got 0"),
        ({"keep": "middle"}, "keep must be 'end' or 'start', got 'middle'"),
        ({"pad_id": 300}, "pad_id must be from 0 to vocab_size"),
        ({"tokenizer": object()}, "vocab_size must be a positive whole number"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        TokenMultiDiscrete(DoorsEnv(), **arguments)


def test_checker_accepts_it_over_a_program():
    env = TokenMultiDiscrete(gym.make("spade/BeaconWalk-v0").unwrapped, length=32, action_length=8)
    env.unwrapped.spec = None
    with pytest.warns(UserWarning, match="different from the unwrapped version"):
        check_env(env, skip_render_check=True)
    env.close()


def test_pickle():
    env = pickle.loads(pickle.dumps(TokenMultiDiscrete(DoorsEnv(), length=4)))
    assert env.encode("a").tolist() == [97, 256, 256, 256]


@given(st.text())
def test_any_text_comes_back(text):
    env = TokenMultiDiscrete(DoorsEnv(), length=4 * len(text) + 1)
    ids = env.encode(text)
    assert ids.dtype == np.int64
    assert env.decode(ids) == text
