from __future__ import annotations

import importlib.util

import pytest

from spade_gym.errors import SpadeError
from spade_trainers.sb3.train import require_packages, train


def test_missing_packages_name_the_command(tmp_path):
    if importlib.util.find_spec("stable_baselines3"):
        pytest.skip("Stable-Baselines3 is installed")
    with pytest.raises(SpadeError, match=r'pip install "spade-gym\[sb3\]"'):
        require_packages()
    with pytest.raises(SpadeError, match="training needs stable-baselines3"):
        train("spade/BeaconWalk-v0", steps=10, out=tmp_path)
