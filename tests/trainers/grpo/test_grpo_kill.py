"""A cycle with the GRPO trainer that is killed with ``kill -9``, again and again, ends with the same weights."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from word_game import write_recipe

CHANGES = ("cycle.rollouts=8", "cycle.regenerate_every=4", "cycle.plays=8", "trainer.save_every=3")
LAST = "000007"


def begin(recipe: Path, run: Path) -> subprocess.Popen[str]:
    """Start ``spade-gym selfplay``, or start it again."""
    command = [sys.executable, "-m", "spade_gym.cli.main", "selfplay", "--recipe", str(recipe), "--out", str(run)]
    for change in CHANGES:
        command += ["--set", change]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(recipe: Path, run: Path) -> None:
    child = begin(recipe, run)
    out, _ = child.communicate(timeout=300)
    assert child.returncode == 0, out


def rows(run: Path, query: str) -> list[tuple[Any, ...]]:
    if not (run / "run.db").exists():
        return []
    database = sqlite3.connect(f"file:{run / 'run.db'}?mode=ro", uri=True, timeout=10)
    try:
        return database.execute(query).fetchall()
    except sqlite3.OperationalError:  # its tables are not there yet
        return []
    finally:
        database.close()


def kill_when(reached: Callable[[], bool], recipe: Path, run: Path) -> None:
    """Start a run and kill it with its whole group of processes as soon as something is there."""
    child = begin(recipe, run)
    try:
        while not reached():
            assert child.poll() is None, child.communicate()[0]
            time.sleep(0.002)
    finally:
        child.kill()
        child.communicate()
    assert child.returncode == -signal.SIGKILL


def weights(run: Path) -> dict[str, str]:
    """Digests of all that the last checkpoint holds."""
    folder = run / "checkpoints" / LAST
    return {path.name: digest(path) for path in sorted(folder.iterdir())}


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def learnt(run: Path) -> list[tuple[int, dict[str, float]]]:
    """What the updates were told and found, times aside."""
    found = rows(run, "SELECT rollout, metrics FROM updates ORDER BY rollout")
    return [
        (rollout, {name: value for name, value in json.loads(text).items() if "second" not in name})
        for rollout, text in found
    ]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_kill_9_again_and_again_changes_no_weight(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    finish(recipe, whole)
    plays = "SELECT key, seed, total, won, samples FROM plays ORDER BY key"
    places = (
        lambda: len(rows(killed, "SELECT 1 FROM plays")) >= 5,  # in the middle of a rollout, before any update
        lambda: len(rows(killed, "SELECT 1 FROM updates")) >= 2,  # learnt from, and not saved
        lambda: bool(list((killed / "checkpoints").glob("*.partial"))),  # while the first checkpoint is written
        lambda: len(rows(killed, "SELECT 1 FROM plays WHERE rollout = 4")) >= 9,  # after a regeneration
    )
    for reached in places:
        kill_when(reached, recipe, killed)
    finish(recipe, killed)
    assert rows(killed, plays) == rows(whole, plays)
    assert learnt(killed) == learnt(whole)
    assert weights(killed) == weights(whole)
    assert len(learnt(whole)) == 8
    assert weights(whole)["model.safetensors"] != digest(tmp_path / "model" / "model.safetensors")
