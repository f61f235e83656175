from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest
from doors import DoorsEnv

from spade_gym.envs.wrappers import ActionMenu, BoxedAction, HashedText, HashObs


def test_values_worked_out_by_hand():
    # zlib.crc32(b"w a") = 30331563 = 3 mod 4, below 2**31: +1 in place 3 of 4.
    # zlib.crc32(b"w b") = 2563212049 = 1 mod 4, above 2**31: -1 in place 1.
    encode = HashedText(4, words=(1,), places=False)
    assert encode("a").tolist() == [0.0, 0.0, 0.0, 1.0]
    assert encode("b").tolist() == [0.0, -1.0, 0.0, 0.0]
    assert encode("A b\na a").tolist() == [0.0, -1.0, 0.0, 1.0]


def test_equal_in_another_process_with_another_hash_seed():
    code = "from spade_gym.envs.wrappers import HashedText; print(HashedText(64)('A door, ü.\\n# .').tolist())"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert outputs == {f"{HashedText(64)('A door, ü.' + chr(10) + '# .').tolist()}\n"}


def test_order_of_words_matters_only_with_longer_grams_or_places():
    texts = ("red left, blue right", "blue right, red left", "red right, blue left")
    bags = {HashedText(words=(1,), places=False)(text).tobytes() for text in texts}
    full = {HashedText()(text).tobytes() for text in texts}
    assert len(bags) == 1
    assert len(full) == 3


def test_places_tell_maps_apart_that_have_the_same_rows():
    maps = ("@ .\n. *\n", ". *\n@ .\n")
    assert len({HashedText(places=False)(text).tobytes() for text in maps}) == 1
    assert len({HashedText()(text).tobytes() for text in maps}) == 2


def test_any_text_gives_finite_values_in_range():
    encode = HashedText(16, chars=(2, 4))
    for text in ("", "\n\n", " ", "\x00", "\ud800", "é中🙂\\{}", "word " * 5000):
        vector = encode(text)
        assert vector.shape == (16,)
        assert vector.dtype == np.float32
        assert np.abs(vector).max() <= 1.0


def test_l2_gives_unit_vectors():
    assert np.linalg.norm(HashedText(64, scale="l2")("one two three")) == pytest.approx(1.0)
    assert np.linalg.norm(HashedText(64, scale="l2")("")) == 0.0


def test_settings_make_an_equal_encoder_and_pickle_leaves_the_cache_behind():
    encode = HashedText(32, words=(1, 3), chars=(2,), places=False, scale="l2")
    expected = encode("a b c").tolist()
    assert HashedText(**encode.settings)("a b c").tolist() == expected
    copy = pickle.loads(pickle.dumps(encode))
    assert copy("a b c").tolist() == expected
    assert len(copy._texts) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_features": 0}, "num_features must be a positive whole number, got 0"),
        ({"words": (0,)}, "lengths of n-grams"),
        ({"words": (), "places": False}, "lengths of n-grams"),
        ({"scale": "max"}, "scale must be 'clip' or 'l2', got 'max'"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        HashedText(**arguments)


def test_history_stacks_oldest_first_and_keeps_the_first_observation():
    env = HashObs(BoxedAction(DoorsEnv()), num_features=8, history=2, keep_first=True)
    encode = env.encode
    first, _ = env.reset(seed=0)
    text = f"The {env.unwrapped.open} door is open."
    assert env.observation_space.shape == (24,)
    assert first.tolist() == [*np.zeros(8), *encode(text), *encode(text)]
    second, *_ = env.step("wait")
    assert second.tolist() == [*encode(text), *encode("Tried \\boxed{wait}."), *encode(text)]
    again, _ = env.reset(seed=0)
    assert again.tolist() == first.tolist()


def test_observations_are_not_shared_with_the_cache():
    env = HashObs(DoorsEnv(), num_features=8)
    first, _ = env.reset(seed=0)
    expected = first.tolist()
    first[:] = 9.0
    assert env.reset(seed=0)[0].tolist() == expected


def test_wrappers_work_in_either_order():
    inner = HashObs(ActionMenu(DoorsEnv()), num_features=8)
    outer = ActionMenu(HashObs(DoorsEnv(), num_features=8))
    for env in (inner, outer):
        env.reset(seed=0)
        observation, *_ = env.step(0)
        assert observation in env.observation_space


def test_refuses_observations_that_are_no_texts():
    with pytest.raises(TypeError, match="HashObs needs an environment with text observations"):
        HashObs(HashObs(DoorsEnv()))


def test_bad_history_is_named():
    with pytest.raises(ValueError, match="history must be a positive whole number, got 0"):
        HashObs(DoorsEnv(), history=0)
