"""The bridge keeps the contract of the SkyRL that is installed, if it can be imported on this machine."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parents[2]


@pytest.mark.timeout(300)
def test_the_bridge_keeps_skyrls_contract():
    if importlib.util.find_spec("skyrl") is None:
        pytest.skip("skyrl is not installed: pip install --no-deps skyrl skyrl-gym")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(TESTS)}
    command = [sys.executable, str(Path(__file__).parent / "contract.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280, check=False)
    if done.returncode == 77:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "kept"
