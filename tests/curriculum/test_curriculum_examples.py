from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(name: str, *arguments: str) -> str:
    command = [sys.executable, str(ROOT / "examples" / name), *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "trainers"), *sys.path])}
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_plain_loop() -> None:
    assert "lakes are crossed after 300 episodes" in run("curriculum_plain_loop.py", "--episodes", "300")


def test_single_file_ppo() -> None:
    pytest.importorskip("torch")
    assert "'counted'" in run("curriculum_cleanrl_ppo.py", "--steps", "4096")


def test_stable_baselines(tmp_path: Path) -> None:
    pytest.importorskip("stable_baselines3")
    assert "4096 steps" in run("curriculum_sb3.py", "--steps", "4096", "--run", str(tmp_path))
    assert "'counted'" in run("curriculum_sb3.py", "--steps", "1024", "--run", str(tmp_path))  # and it goes on


def test_minigrid() -> None:
    pytest.importorskip("stable_baselines3")
    pytest.importorskip("minigrid")
    assert "evaluation starts with" in run("curriculum_minigrid.py", "--steps", "2048")


def test_trl_is_skipped_with_a_reason_where_it_is_missing() -> None:
    if importlib.util.find_spec("trl") is not None:
        pytest.skip("TRL is installed: the example runs")
    assert run("curriculum_trl.py").startswith("skipped: needs ")


@pytest.mark.slow
def test_trl() -> None:
    pytest.importorskip("trl")
    printed = run("curriculum_trl.py", "--steps", "2")
    assert "outcomes {'counted': 16}" in printed
