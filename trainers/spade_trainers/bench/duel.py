"""Our trainer beside TRL's: each in its own process, at work in turn, so that a busy machine slows both alike."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, get_args

from spade_gym.errors import SpadeError
from spade_trainers.bench.workload import Precision, Workload

#: What comes back of a side that failed: the last lines of what it printed.
_LAST_LINES = 8
#: Completions of the trial that finds TRL's faster precision have this many tokens at most.
_TRIAL_TOKENS = 64

Say = Callable[[str], None]


class SideError(SpadeError):
    """A side that ended before it was told to."""


class Process:
    """One side; see ``side.py``.

    Args:
        kind: ``ours`` or ``trl``.
        workload: What is computed.

    Attributes:
        setting: How it set itself, in words.

    Raises:
        SideError: It did not start.
    """

    def __init__(self, kind: str, workload: Workload) -> None:
        self._printed = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - until close
        self._process = subprocess.Popen(
            [sys.executable, "-m", "spade_trainers.bench.side", kind, json.dumps(workload.as_json())],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._printed, text=True, encoding="utf-8",
        )  # fmt: skip
        self._kind = kind
        try:
            self.setting: str = self._answer()["ready"]
        except BaseException:
            self.close()
            raise

    def ask(self, command: str) -> dict[str, Any]:
        """Let it do something.

        Raises:
            SideError: It ended instead.
        """
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            print(command, file=self._process.stdin, flush=True)
        return self._answer()

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()
        self._printed.close()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._printed.seek(0)
            last = self._printed.read().splitlines()[-_LAST_LINES:]
            raise SideError(f"the side {self._kind!r} of the comparison ended: {' / '.join(last)}")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextlib.contextmanager
def processes(sides: Mapping[str, tuple[str, Workload]]) -> Iterator[dict[str, Process]]:
    """Start sides by name, from their kinds and workloads; they are ended afterwards."""
    with contextlib.ExitStack() as stack:
        found = {}
        for name, (kind, workload) in sides.items():
            found[name] = Process(kind, workload)
            stack.callback(found[name].close)
        yield found


def why_no_trl() -> str | None:
    """Return why TRL cannot be measured here, with the remedy; ``None`` where it can."""
    missing = [name for name in ("trl", "datasets") if importlib.util.find_spec(name) is None]
    if missing:
        return f"{' and '.join(missing)} not installed in the environment of {sys.executable}: pip install trl"
    return None


class Timing(NamedTuple):
    """Medians over calls after one that does not count.

    Attributes:
        wall: Seconds.
        processor: Seconds of processor time.
        walls: Seconds of each call.
        processors: Seconds of processor time of each call.
        tokens: Sampled by one call.
        gradient_norms: Of the first calls on, the uncounted one among them.
    """

    wall: float
    processor: float
    walls: tuple[float, ...]
    processors: tuple[float, ...]
    tokens: int
    gradient_norms: tuple[float | None, ...]

    def as_json(self) -> dict[str, Any]:
        """Return it as rounded JSON values."""
        values: dict[str, Any] = {
            "seconds": round(self.wall, 4), "processor_seconds": round(self.processor, 4),
            "each_seconds": [round(value, 4) for value in self.walls],
            "each_processor_seconds": [round(value, 4) for value in self.processors],
        }  # fmt: skip
        if self.tokens:
            values["tokens_per_second"] = round(self.tokens / self.wall, 2)
        if self.gradient_norms[0] is not None:
            values["first_gradient_norm"] = self.gradient_norms[0]
        return values


def ratio_of(ours: Sequence[float], other: Sequence[float]) -> float:
    """Return the median over rounds of one side's seconds over the other's: a round's calls meet a like machine."""
    return statistics.median(one / two for one, two in zip(ours, other, strict=False))


def in_turn(
    sides: Mapping[str, Process], command: str, repetitions: int, say: Say, *, fewer: Mapping[str, int] | None = None
) -> dict[str, Timing]:
    """Let sides do the same thing one after another, once for warming up and then ``repetitions`` times.

    Args:
        sides: By name.
        command: What to do.
        repetitions: Of all sides but those in ``fewer``.
        say: Is told how it goes.
        fewer: Repetitions of some sides, where these are less.
    """
    works: dict[str, list[dict[str, Any]]] = {name: [] for name in sides}
    for number in range(repetitions + 1):
        for name, side in sides.items():
            if number > (fewer or {}).get(name, repetitions):
                continue
            works[name].append(side.ask(command))
            done = "warm-up" if number == 0 else f"{number}/{repetitions}"
            last = works[name][-1]
            say(f"{command} {done}, {name}: {last['wall']:.2f} s, of the processor {last['processor']:.2f} s")
    return {name: _timing(found) for name, found in works.items()}


def faster_precision(workload: Workload, say: Say) -> tuple[Precision, dict[str, float]]:
    """Return TRL's faster precision here, and the processor seconds of an update with short completions in each."""
    short = replace(workload, completion_tokens=min(_TRIAL_TOKENS, workload.completion_tokens))
    kinds = {precision: ("trl", replace(short, precision=precision)) for precision in get_args(Precision)}
    with processes(kinds) as sides:
        times = in_turn(sides, "update", 2, say)
    best: Precision = min(get_args(Precision), key=lambda name: times[name].processor)
    return best, {name: round(time.processor, 3) for name, time in times.items()}


def _timing(works: Sequence[Mapping[str, Any]]) -> Timing:
    counted = works[1:]
    return Timing(
        statistics.median(work["wall"] for work in counted),
        statistics.median(work["processor"] for work in counted),
        tuple(work["wall"] for work in counted),
        tuple(work["processor"] for work in counted),
        int(statistics.median(work["tokens"] for work in counted)),
        tuple(work["gradient_norm"] for work in works),
    )
