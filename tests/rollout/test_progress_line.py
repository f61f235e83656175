from __future__ import annotations

import io

from spade_gym.rollout.progress_line import ProgressLine
from spade_gym.rollout.rollout import Counts


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_line_tells_rates_and_the_time_left() -> None:
    clock, stream = Clock(), io.StringIO()
    line = ProgressLine(stream, total=400, clock=clock)
    clock.now += 40
    line(Counts(plays=100, faulty=2, in_flight=64, steps=900, tokens=20_000))
    assert stream.getvalue() == "plays 100/400, 64 under way, 2 faulty, 2.5 plays/s, 500 tokens/s, 2:00 left\n"


def test_a_log_gets_a_line_every_half_minute_and_a_last_one() -> None:
    clock, stream = Clock(), io.StringIO()
    with ProgressLine(stream, total=1200, clock=clock) as line:
        for second in range(1, 101):
            clock.now += 1
            line(Counts(plays=second))
    lines = stream.getvalue().splitlines()
    assert [text.split(",")[0] for text in lines] == [f"plays {n}/1" for n in (30, 60, 90, 100)]


def test_a_terminal_gets_one_line_that_is_overwritten() -> None:
    clock, stream = Clock(), Terminal()
    with ProgressLine(stream, label="hinted plays", clock=clock) as line:
        clock.now += 5000
        line(Counts(plays=5000, tokens=1))
        line(Counts(plays=5001))  # too early
        clock.now += 1
        line(Counts(plays=5001))
    assert stream.getvalue() == (
        "\rhinted plays 5,000, 0 under way, 1 plays/s, 0 tokens/s, 1:23:20"
        "\rhinted plays 5,001, 0 under way, 1 plays/s, 0 tokens/s, 1:23:21\n"
    )


def test_a_shorter_line_covers_the_longer_one() -> None:
    clock, stream = Clock(), Terminal()
    line = ProgressLine(stream, clock=clock)
    clock.now += 10
    line(Counts(plays=10, in_flight=1000))
    clock.now += 10
    line(Counts(plays=20))
    longer, shorter = stream.getvalue().split("\r")[1:]
    assert len(shorter) == len(longer)


def test_nothing_played_writes_nothing() -> None:
    stream = Terminal()
    with ProgressLine(stream, total=0):
        pass
    assert stream.getvalue() == ""
