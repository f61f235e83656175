from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spade_gym.curriculum.store import Store, StoreError
from spade_gym.curriculum.task import Outcome

ROOT = Path(__file__).parents[2]


def start(name: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(ROOT / "examples" / name), *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "trainers"), *sys.path])}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def run(name: str, *arguments: str) -> str:
    with start(name, *arguments) as process:
        try:
            printed, errors = process.communicate(timeout=110)
        finally:
            process.kill()
    assert process.returncode == 0, errors
    return printed


def told(folder: Path) -> list[Outcome]:
    """What a run's store holds; nothing while there is none."""
    try:
        with Store(folder, read_only=True) as store:
            return [item.outcome for item in store.outcomes()]
    except StoreError as error:
        assert "there is no run.db" in str(error) or "holds nothing yet" in str(error)  # noqa: PT017
        return []


def told_versions(folder: Path) -> set[int]:
    return {outcome.policy_version for outcome in told(folder) if outcome.status == "ok"}


def test_plain_loop() -> None:
    assert "lakes are crossed after 300 episodes" in run("curriculum_plain_loop.py", "--episodes", "300")


def test_single_file_ppo() -> None:
    pytest.importorskip("torch")
    assert "'counted'" in run("curriculum_cleanrl_ppo.py", "--steps", "4096")


def test_stable_baselines(tmp_path: Path) -> None:
    pytest.importorskip("stable_baselines3")
    assert "plr: 2048 steps" in run("curriculum_sb3.py", "--steps", "2048", "--run", str(tmp_path))
    assert told_versions(tmp_path) == {0, 1}
    printed = run("curriculum_sb3.py", "--steps", "3072", "--run", str(tmp_path))
    assert "goes on after 2048 steps" in printed
    assert "plr: 3072 steps" in printed
    assert told_versions(tmp_path) == {0, 1, 2}  # the second run's only rollout is the agent's third


def test_stable_baselines_goes_on_after_a_kill(tmp_path: Path) -> None:
    pytest.importorskip("stable_baselines3")
    with start("curriculum_sb3.py", "--steps", "1000000", "--run", str(tmp_path)) as process:
        try:
            while not told_versions(tmp_path) >= {0, 1, 2}:
                assert process.poll() is None
                time.sleep(0.2)
        finally:
            process.kill()
    before = len(told(tmp_path))
    printed = run("curriculum_sb3.py", "--steps", "1024", "--run", str(tmp_path))
    steps = int(printed.split("goes on after ")[1].split()[0])
    assert steps >= 2048
    assert f"plr: {steps} steps" in printed
    assert len(told(tmp_path)) >= before


def test_minigrid_is_skipped_with_a_reason_where_it_is_missing() -> None:
    needed = ("minigrid", "stable_baselines3")
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if not missing:
        pytest.skip("all that it needs is installed: the example runs")
    assert run("curriculum_minigrid.py").startswith(f"skipped: needs {', '.join(missing)}: ")


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
