from __future__ import annotations

import importlib.util

import pytest

from spade_gym import plugins
from spade_gym.errors import SpadeError


def test_the_entry_point_can_be_loaded_and_missing_packages_name_the_command():
    make = plugins.load("trainers", "grpo")
    if importlib.util.find_spec("torch") and importlib.util.find_spec("transformers"):
        pytest.skip("torch and transformers are installed")
    with pytest.raises(SpadeError, match=r"pip install 'spade-gym\[grpo\]'"):
        make(object(), {})
