from __future__ import annotations

import json

import pytest

from spade_gym.cli.main import main
from spade_gym.plugins import available

needs_sb3 = pytest.importorskip("stable_baselines3", reason="Stable-Baselines3 is not installed (extra sb3)")
if not available("learners"):
    pytest.skip("spade-gym is not installed, so its entry points are unknown", allow_module_level=True)

QUICK = ["--steps", "64", "--num-envs", "4", "--eval-episodes", "5", "--num-features", "16"]


def test_prints_wins_before_and_after(tmp_path, capsys):
    assert main(["train", "sb3", "--env", "spade/BeaconWalk-v0", "--out", str(tmp_path), *QUICK]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "spade/BeaconWalk-v0: 4 commands: go north, go east, go south, go west"
    assert lines[2].startswith("before training: won ")
    assert lines[3].startswith("after 64 steps of ppo in ")
    assert lines[-2] == f"model: {tmp_path / 'model.zip'}"


def test_json_is_all_that_stands_on_standard_output(tmp_path, capsys):
    assert main(["train", "sb3", "--program", "BeaconWalk", "--json", "--out", str(tmp_path), *QUICK]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["algorithm"] == "ppo"
    assert report["before"]["plays"] == report["after"]["plays"] == 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sb3", "--env", "spade/LarderFiles-v0"], "tool-use program"),
        (["nope", "--env", "spade/BeaconWalk-v0"], "no plugin 'nope'"),
        (["sb3", "--program", "nope"], "no program 'nope'"),
        (["sb3", "--env", "spade/BeaconWalk-v0", "--steps", "0"], "must be a whole number from 1 on, got '0'"),
        (["sb3", "--env", "."], "give it as --program ."),
        (["sb3"], "one of the arguments --env --program is required"),
    ],
)
def test_errors_are_one_line_without_a_traceback(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert main(["train", *arguments]) == 2
    text = capsys.readouterr().err
    assert message in text
    assert "Traceback" not in text
