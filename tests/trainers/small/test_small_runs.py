import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("matplotlib")

from spade_gym.selfplay.run_store import RunStore

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
SHORT = ["cycle.rollouts=4", "cycle.regenerate_every=2", "cycle.plays=4", "cycle.hint_plays=4"]


def command(folder: Path) -> list[str]:
    settings = [part for setting in SHORT for part in ("--set", setting)]
    return [sys.executable, "-m", "spade_trainers.small.run_arm", str(folder), "--every", "2", *settings]


def test_a_run_killed_in_the_middle_goes_on_and_plays_nothing_twice(tmp_path: Path) -> None:
    process = subprocess.Popen(command(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    while "pool of" not in process.stdout.readline():
        assert process.poll() is None
    time.sleep(1.5)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert not (tmp_path / "result.json").exists()
    subprocess.run(command(tmp_path), check=True, capture_output=True)
    assert set(json.loads((tmp_path / "result.json").read_text())["tiers"]) >= {"easy", "medium", "beyond"}
    measured = [json.loads(line)["updates"] for line in (tmp_path / "suite.jsonl").read_text().splitlines()]
    assert measured == [0, 2, 4]
    with RunStore(tmp_path, read_only=True) as store:
        counts = store.rows("SELECT rollout, arm, COUNT(*) AS n FROM plays GROUP BY rollout, arm ORDER BY rollout, arm")
    pools = 8 * 4
    assert all(row["n"] <= pools for row in counts)
    assert {(row["rollout"], row["arm"]) for row in counts} >= {(number, "plain") for number in range(4)}


def test_the_demo_draws_its_picture_and_is_not_done_twice(tmp_path: Path) -> None:
    demo = [sys.executable, "-m", "spade_gym.cli.main", "demo", "--rollouts", "4", "--out", str(tmp_path / "demo")]
    first = subprocess.run(demo, check=True, capture_output=True, text=True)
    assert "self-play" in first.stdout
    assert "designer not trained" in first.stdout
    assert "suite, after 0 → 4 updates: easy" in first.stdout
    assert (tmp_path / "demo" / "demo.png").stat().st_size > 10_000
    begun = time.monotonic()
    again = subprocess.run(demo, check=True, capture_output=True, text=True)
    assert time.monotonic() - begun < 60
    table = [line for line in first.stdout.splitlines() if line.startswith("   0 ")]
    assert table
    assert all(line in again.stdout for line in table)
