from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from spade_gym.cli.main import main
from spade_gym.models.base import Completion


@pytest.fixture
def suite(tmp_path: Path) -> str:
    rows = [{"kind": "exact", "question": f"Say {number}.", "answer": str(number), "group": f"g{number % 2}"}
            for number in range(3)]  # fmt: skip
    path = tmp_path / "suite.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.fixture
def recording(tmp_path: Path) -> str:
    """The model knows everything in its first sample, the base only the first question."""
    path = tmp_path / "said.jsonl"
    with open(path, "wb") as file:
        for task in range(3):
            for sample in range(2):
                for arm in ("model", "base"):
                    knows = task == 0 or (arm == "model" and sample == 0)
                    text = f"\\boxed{{{task if knows else '?'}}}"
                    file.write(msgspec.json.encode(Completion(f"eval/{arm}/{task}/{sample}", text, "stop")) + b"\n")
    return f"recorded:{path}"


def test_it_prints_figures_with_intervals_and_the_difference(
    suite: str, recording: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["eval", "--model", recording, "--base", recording, "--suite", suite, "--k", "2"]
    command += ["--out", str(tmp_path / "e"), "--set", "agent.temperature=1.0"]
    assert main(command) == 0
    text = capsys.readouterr().out
    for word in ("avg@2", "pass@2", "model-base", "g0", "g1", "bootstrap", "3 questions", "0.667", "0.333", "+0.333"):
        assert word in text
    assert max(map(len, text.splitlines())) <= 160
    assert main(command) == 0
    captured = capsys.readouterr()
    assert captured.out == text
    assert "6 of 6 results are there already" in captured.err


def test_json_holds_everything(suite: str, recording: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["eval", "--model", recording, "--suite", suite, "--k", "2", "--out", str(tmp_path / "e"), "--json"]) == 0
    )
    told = json.loads(capsys.readouterr().out)
    assert told["model"]["avg"]["value"] == pytest.approx(2 / 3)
    assert told["model"]["pass_at"]["2"]["value"] == 1.0
    assert told["model"]["avg"]["interval"] == "bootstrap"
    assert told["difference"] is None
    assert told["manifest"]["settings"]["k"] == 2
    assert told["missing"] == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--suite", "reasoning-gymm"], "no program"),
        (["--suite", "nothing.jsonl"], "cannot be read"),
        (["--suite", "OddCoin", "--k", "0"], "k must be at least 1"),
        (["--suite", "OddCoin", "--checkpoint", "best"], "checkpoint must be 'last' or"),
        (["--suite", "OddCoin", "--checkpoint", "last"], "no run's folder"),
        (["--suite", "OddCoin", "--set", "agent.temprature=1"], "did you mean 'temperature'"),
        (["--suite", "OddCoin", "--set", "suite_options.lcm.a=1"], "reasoning-gym"),
        (["--suite", "bfcl:multi_turn"], "no category"),
    ],
)
def test_what_cannot_be_evaluated_is_said_in_one_line(
    arguments: list[str], message: str, recording: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", "--model", recording, "--out", str(tmp_path / "e"), *arguments]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


def test_missing_samples_give_another_status(suite: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "said.jsonl"
    rows = [Completion("eval/model/0/0", "\\boxed{0}", "stop"), Completion("eval/model/1/0", "", "error", error="gone"),
            Completion("eval/model/2/0", "\\boxed{\x1b[2J}", "stop")]  # fmt: skip
    path.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    command = ["eval", "--model", f"recorded:{path}", "--suite", suite, "--k", "1", "--out", str(tmp_path / "e")]
    assert main(command) == 1
    text = capsys.readouterr().out
    assert "1 samples are missing because the model failed (gone)" in text
    assert "\x1b" not in text
