import json
from typing import NamedTuple

import pytest

from spade_gym.cli.doctor import run
from spade_gym.cli.main import build_parser


class Probe(NamedTuple):
    name: str
    expected: str
    outcome: str
    detail: str = ""


class Level(NamedTuple):
    level: str
    available: bool
    reason: str = ""
    probes: tuple = ()


class Report(NamedTuple):
    levels: tuple
    default: str | None
    python: str = "3.11"
    kernel: str = "6"
    machine: str = "x86_64"
    uid: int = 0


GOOD = Level("L2", True, "", (Probe("read shadow", "denied", "denied", "EACCES"),))
LEAKY = Level("L2", True, "", (Probe("read shadow", "denied", "allowed", "\x1b[2Jroot:x"),))
ABSENT = Level("L3", False, "bubblewrap is not installed")


def doctor(report, *arguments):
    return run(build_parser("doctor").parse_args(["doctor", *arguments]), report=report)


@pytest.mark.parametrize(
    ("report", "arguments", "status"),
    [
        (Report((ABSENT, GOOD), "L2"), (), 0),
        (Report((ABSENT, GOOD), "L2"), ("--isolation", "L3"), 1),
        (Report((ABSENT, GOOD), "L2"), ("--isolation", "L2"), 0),
        (Report((ABSENT, GOOD), "L2"), ("--isolation", "L1"), 1),
        (Report((ABSENT, LEAKY), "L2"), (), 1),
        (Report((ABSENT,), None), (), 1),
        (Report((Level("L1", True),), "L1"), (), 1),
        (Report((), "L3"), (), 1),
    ],
)
def test_the_status_says_whether_all_is_well(report, arguments, status, capsys):
    assert doctor(report, *arguments) == status
    assert ("all is well" in capsys.readouterr().out) == (status == 0)


def test_surprises_are_shown_harmlessly(capsys, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    doctor(Report((ABSENT, LEAKY), "L2"))
    output = capsys.readouterr().out
    assert "1 probes did NOT end as expected" in output
    assert "\\x1b[2Jroot:x" in output
    assert "bubblewrap is not installed" in output
    assert "\x1b" not in output


def test_json_holds_the_whole_report(capsys):
    assert doctor(Report((ABSENT, LEAKY), "L2"), "--json") == 1
    record = json.loads(capsys.readouterr().out)
    assert record["levels"][1]["probes"][0]["outcome"] == "allowed"
    assert (record["default"], record["healthy"], record["uid"]) == ("L2", False, 0)
