import io
import json
import os
import subprocess
import sys

import pytest

from spade_gym.cli.main import build_parser, main
from spade_gym.cli.play import run
from spade_gym.cli.transcript import Transcript
from spade_gym.errors import ProgramTimeout, SandboxError, SpadeError
from spade_gym.pool import Pool
from spade_gym.programs.program import Manifest, Program


class Guess:
    """The number is 7; three turns; a wrong guess pays nothing."""

    def __init__(self, error=None, fault=""):
        self.error, self.fault, self.closed, self.options = error, fault, False, None

    def reset(self, *, seed=None, options=None):
        self.seed, self.options, self.turn = seed, options, 0
        return "Guess! \x1b[2J" + " and so on" * 20, {"commands": ["guess 1", "guess 7"], "fault": ""}

    def step(self, action):
        if self.error is not None:
            raise self.error
        self.turn += 1
        won = action == r"\boxed{guess 7}"
        info = {"fault": self.fault}
        return f"you said {action}", float(won), won, self.turn >= 3 or bool(self.fault), info

    def close(self):
        self.closed = True


@pytest.fixture
def play(tmp_path, monkeypatch, capsys):
    manifest = Manifest(
        name="Guess",
        setting="multi_turn",
        class_name="GuessEnv",
        hint="It is odd.",
        max_turns=3,
        commands=("guess {1..9}",),
    )
    Pool(tmp_path / "pool").add(Program(source="# x\n", manifest=manifest))
    monkeypatch.setenv("COLUMNS", "40")

    def start(typed, *arguments, env=None):
        monkeypatch.setattr(sys, "stdin", typed if not isinstance(typed, str) else io.StringIO(typed))
        env = env or Guess()
        words = [
            "play",
            "Guess",
            "--pool",
            str(tmp_path / "pool"),
            "--transcript",
            str(tmp_path / "t.jsonl"),
            *arguments,
        ]
        try:
            status = run(build_parser("play").parse_args(words), make=lambda found, isolation: env)
        finally:
            lines = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
            output = capsys.readouterr().out
        assert env.closed
        return status, output, lines, env

    return start


def test_a_play_from_first_to_last_turn(play):
    status, output, lines, env = play("guess 3\nguess 7\n", "--seed", "5")
    assert (status, env.seed, env.options) == (0, 5, None)
    assert "[turn 1 of 3] > guess 3" in output
    assert r"you said \boxed{guess 7}" in output
    assert "won after 2 turns, return 1; transcript:" in output
    assert "\x1b" not in output
    assert "\\x1b[2J" in output
    assert all(len(line) <= 40 for line in output.split("\n") if "transcript" not in line)
    assert [line["event"] for line in lines] == ["start", "reset", "step", "step", "end"]
    assert lines[2]["typed"] == "guess 3"
    assert lines[3]["action"] == r"\boxed{guess 7}"
    assert (lines[3]["reward"], lines[3]["terminated"]) == (1.0, True)
    assert lines[4] == {"event": "end", "outcome": "won", "turns": 2, "score": 1.0}


def test_commands_of_the_player_cost_no_turn(play):
    _, output, lines, _ = play("\n:help\n:hint\n:commands\n:tools\n:nonsense\n:quit\n")
    for text in ("Type an action", ":quit", "It is odd.", "guess 7", "no tools", "no command :nonsense"):
        assert text in output
    assert lines[-1] == {"event": "end", "outcome": "quit", "turns": 0, "score": 0.0}
    assert [line["event"] for line in lines] == ["start", "reset", "hint", "end"]


def test_the_hint_is_asked_of_the_environment(play):
    assert play(":quit\n", "--hint")[3].options == {"hint": True}


def test_the_end_of_the_input_ends_the_play(play):
    status, output, lines, _ = play("guess 1")
    assert (status, lines[-1]["outcome"], lines[-1]["turns"]) == (0, "end of input", 1)
    assert "end of input after 1 turns" in output


def test_turns_that_run_out_are_cut_off(play):
    status, _, lines, _ = play("a\nb\nc\nd\n")
    assert (status, lines[-1]["outcome"], lines[-1]["turns"]) == (0, "cut off", 3)


class Interrupting(io.StringIO):
    def readline(self, *args):
        raise KeyboardInterrupt


def test_ctrl_c_keeps_the_transcript(play):
    status, output, lines, _ = play(Interrupting())
    assert (status, lines[-1]["outcome"]) == (130, "interrupted")
    assert "transcript:" in output


def test_a_program_that_fails_is_not_the_players_fault(play):
    status, output, lines, _ = play("a\n", env=Guess(fault="ZeroDivisionError in line 3"))
    assert (status, lines[-1]["outcome"]) == (1, "faulty")
    assert "not your fault" in " ".join(output.split())
    status, _, lines, _ = play("a\n", env=Guess(error=ProgramTimeout("step took 5 s")))
    assert (status, lines[-1]["outcome"]) == (1, "faulty")


def test_an_action_that_the_environment_refuses_costs_no_turn(play):
    status, output, lines, _ = play("a\n:quit\n", env=Guess(error=ValueError("too long")))
    assert (status, lines[-1]["turns"]) == (0, 0)
    assert "too long" in output


def test_a_broken_sandbox_raises_and_the_transcript_is_whole(play, tmp_path):
    with pytest.raises(SandboxError):
        play("a\n", env=Guess(error=SandboxError("gone")))
    assert '"outcome": "error"' in (tmp_path / "t.jsonl").read_text()


def test_a_transcript_that_cannot_be_written_stops_before_the_play(tmp_path, capsys):
    Pool(tmp_path).add(Program(source="# x\n", manifest=Manifest(name="A", setting="multi_turn", class_name="AEnv")))
    words = ["play", "A", "--pool", str(tmp_path), "--transcript", str(tmp_path / "no" / "t.jsonl")]
    assert main(words) == 2
    assert "--transcript" in capsys.readouterr().err
    assert main(["play", "A", "--pool", str(tmp_path), "--hint"]) == 2
    assert "no hint" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["OddCoin", "CartwheelOrders"])
def test_bundled_programs_are_played_for_real(name, tmp_path):
    words = [sys.executable, "-m", "spade_gym.cli.main", "play", name, "--seed", "1"]
    typed = ":commands\n:tools\n:hint\n<answer>x</answer>\n:quit\n"
    environment = {**os.environ, "COLUMNS": "30", "TERM": "dumb", "PYTHONIOENCODING": "ascii"}
    environment["PYTHONPATH"] = os.pathsep.join(os.path.abspath(path) for path in sys.path if path)
    done = subprocess.run(
        words, input=typed, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=100
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "after 1 turns" in done.stdout
    (transcript,) = tmp_path.glob("spade-*.jsonl")
    events = [json.loads(line) for line in transcript.read_text().splitlines()]
    assert [event["event"] for event in events] == ["start", "reset", "hint", "step", "end"]


def test_without_a_turn_only_a_named_transcript_is_written(play, tmp_path, monkeypatch, capsys):
    assert [line["event"] for line in play(":quit\n")[2]] == ["start", "reset", "end"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO(":quit\n"))
    args = build_parser("play").parse_args(["play", "Guess", "--pool", "pool"])
    assert run(args, make=lambda found, isolation: Guess()) == 0
    assert list(tmp_path.glob("spade-*")) == []
    assert "nothing to record" in capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", io.StringIO("guess 1\n"))
    assert run(args, make=lambda found, isolation: Guess()) == 0
    (path,) = tmp_path.glob("spade-*")
    assert path.name in capsys.readouterr().out


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no full device here")
def test_a_full_disk_is_told_with_the_name_of_the_file(tmp_path):
    transcript = Transcript(tmp_path / "full.jsonl", on_first_step=True)
    transcript.write("start", seed=1)
    assert not transcript.is_written
    (tmp_path / "full.jsonl").symlink_to("/dev/full")
    with pytest.raises(SpadeError, match=r"full\.jsonl' cannot be written: No space"), transcript:
        transcript.write("step", turn=1)
    transcript.write("end")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX")
def test_a_transcript_without_a_whole_line_is_removed(tmp_path):
    script = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from spade_gym.cli.transcript import Transcript\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
        "try:\n"
        "    Transcript(Path(sys.argv[1])).write('start')\n"
        "except Exception as error:\n"
        "    sys.exit(0 if 't.jsonl' in str(error) else 1)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "t.jsonl")], timeout=60)
    assert done.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_a_forgotten_colon_costs_no_turn_unless_it_is_meant(play):
    _, output, lines, _ = play("help\nHint\nquit\nquit\n:quit\n")
    assert output.count("Did you mean") == 3
    assert lines[-1]["turns"] == 1
    assert [line["typed"] for line in lines if line["event"] == "step"] == ["quit"]


def test_a_word_that_the_program_declares_is_an_action(play):
    env = Guess()
    env.reset = lambda *, seed=None, options=None: ("Say \\boxed{help me} or so.", {"commands": ["quit now"]})
    env.turn = 0
    _, output, lines, _ = play("help\nquit\n:quit\n", env=env)
    assert "Did you mean" not in output
    assert lines[-1]["turns"] == 2
