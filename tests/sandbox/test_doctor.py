import dataclasses
import time

import pytest
from jails import LEVELS, why_not

from spade_gym.sandbox.doctor import diagnose
from spade_gym.sandbox.probes import QUICK


def test_the_report_tells_what_was_found() -> None:
    diagnose()  # starts the zygotes
    start = time.monotonic()
    report = diagnose()
    assert time.monotonic() - start < 5.0
    assert [level.level for level in report.levels] == list(LEVELS)
    for level in report.levels:
        assert level.available == (not why_not(level.level))
        assert bool(level.probes) == level.available
        assert all(probe.outcome == probe.expected for probe in level.probes), level
        assert all(probe.detail for probe in level.probes)
    available = [level.level for level in report.levels if level.available]
    assert report.default == next((level for level in available if level in ("L3", "L2")), None)
    assert dataclasses.asdict(report)["levels"][0]["level"] == "L3"


@pytest.mark.parametrize("level", ["L2", "L0"])
def test_one_level_alone(level: str) -> None:
    report = diagnose(level)
    assert [item.level for item in report.levels] == [level]
    if level == "L2" and report.levels[0].available:
        assert len(report.levels[0].probes) == len(QUICK)
        assert {probe.name for probe in report.levels[0].probes if probe.outcome == "open"} == {"stat_file"}
