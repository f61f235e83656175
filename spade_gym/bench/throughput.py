"""What isolation costs: microseconds a step over a direct Python call, and times to start and to kill.

Every figure of a run is the median over repetitions that alternate with the direct call, so that a machine whose
speed drifts changes both. Ratios are comparable between machines, absolute times are not.
"""

from __future__ import annotations

import functools
import os
import platform
import statistics
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from spade_gym.envs.program_env import ProgramEnv
from spade_gym.envs.program_vector_env import ProgramVectorEnv
from spade_gym.envs.spaces import Unicode
from spade_gym.errors import ProgramTimeout
from spade_gym.programs.program import Manifest, Program
from spade_gym.sandbox.base import Isolation, Limits, World
from spade_gym.sandbox.session import Session
from spade_gym.sandbox.zygotes import resolve_level, zygote_pool

_TRIVIAL = """
class TrivialEnv:
    def __init__(self, max_turns=1000000, **kwargs):
        self.turn = 0

    def reset(self, seed=None):
        self.turn = 0
        return "You are in a small room with one door.", {}

    def step(self, action):
        self.turn += 1
        return "You are still in a small room with one door.", 0.0, False, False, {}
"""
_SLOW = _TRIVIAL.replace(
    "self.turn += 1",
    "self.turn += 1\n        for _ in range(WORK):\n            pass",
)
_HANGING = _TRIVIAL.replace("self.turn += 1", "self.turn += 1\n        while True:\n            pass")
_ACTION = "\\boxed{look}"
_LIMITS = Limits(turns=1 << 40, cpu_seconds=3600)


def _program(source: str) -> Program:
    return Program(source, Manifest(name="Trivial", setting="multi_turn", class_name="TrivialEnv"))


def _instance(source: str) -> Any:
    names: dict[str, Any] = {"__name__": "direct"}
    exec(source, names)  # the benchmark's own text, never a generated program
    environment = names["TrivialEnv"]()
    environment.reset(seed=0)
    return environment


class _DirectEnv(gymnasium.Env[str, str]):
    """The trivial program as an ordinary Gymnasium environment, for the comparison."""

    observation_space = Unicode()
    action_space = Unicode()

    def __init__(self) -> None:
        self._program = _instance(_TRIVIAL)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        return self._program.reset(seed=seed)  # type: ignore[no-any-return]

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return self._program.step(action)  # type: ignore[no-any-return]


def _micros(function: Callable[[], object], num_calls: int, steps_a_call: int) -> float:
    start = time.perf_counter()
    for _ in range(num_calls):
        function()
    return (time.perf_counter() - start) / (num_calls * steps_a_call) * 1e6


def _compare(subjects: dict[str, tuple[Callable[[], object], int, int]], repetitions: int) -> dict[str, float]:
    """Median microseconds a step of several subjects, measured in turn.

    Args:
        subjects: By name: a function, how often to call it in one repetition, and the steps in one call.
        repetitions: Counted repetitions, after one warm-up.
    """
    times: dict[str, list[float]] = {name: [] for name in subjects}
    for repetition in range(repetitions + 1):
        for name, (function, num_calls, steps) in subjects.items():
            value = _micros(function, num_calls, steps)
            if repetition:
                times[name].append(value)
    return {name: statistics.median(values) for name, values in times.items()}


def _steps(repetitions: int, level: Isolation) -> dict[str, float]:
    direct = _instance(_TRIVIAL)
    single = ProgramEnv(_program(_TRIVIAL), isolation=level, limits=_LIMITS)
    single.reset(seed=0)
    vectors = {n: ProgramVectorEnv(n, program=_program(_TRIVIAL), isolation=level, limits=_LIMITS) for n in (64, 256)}
    sync = gymnasium.vector.SyncVectorEnv([_DirectEnv] * 64)
    asynchronous = gymnasium.vector.AsyncVectorEnv([_DirectEnv] * 64, shared_memory=False)
    peers: dict[str, tuple[Any, int]] = {
        "batch64": (vectors[64], 64),
        "batch256": (vectors[256], 256),
        "sync64": (sync, 64),
        "async64": (asynchronous, 64),
    }
    try:
        subjects: dict[str, tuple[Callable[[], object], int, int]] = {
            "direct": (lambda: direct.step(_ACTION), 20_000, 1),
            "single": (lambda: single.step(_ACTION), 2_000, 1),
        }
        for name, (peer, n) in peers.items():
            peer.reset(seed=0)
            subjects[name] = (functools.partial(peer.step, (_ACTION,) * n), 100 if "batch" in name else 10, n)
        return _compare(subjects, repetitions)
    finally:
        single.close()
        for peer, _ in peers.values():
            peer.close()


def _slow_ratio(repetitions: int, level: Isolation, num_workers: int | None) -> float:
    """Time of 64 batched instances of a program whose step costs 100 µs, over the direct call."""
    work = 1000
    for _ in range(3):  # find how many loops make 100 µs here
        probe = _instance(_SLOW.replace("WORK", str(work)))
        work = max(1, round(work * 100 / _micros(functools.partial(probe.step, _ACTION), 300, 1)))
    source = _SLOW.replace("WORK", str(work))
    direct = _instance(source)
    vector = ProgramVectorEnv(64, program=_program(source), isolation=level, limits=_LIMITS, num_workers=num_workers)
    try:
        vector.reset(seed=0)
        actions = (_ACTION,) * 64
        times = _compare(
            {"direct": (lambda: direct.step(_ACTION), 640, 1), "batch": (lambda: vector.step(actions), 10, 64)},
            repetitions,
        )
    finally:
        vector.close()
    return times["batch"] / times["direct"]


def _cold_start(level: Isolation) -> float:
    """Milliseconds from a warm zygote to a program's first observation: fork, lock in, load, reset."""
    session = Session(_program(_TRIVIAL), isolation=level)
    slot = session.open()
    start = time.perf_counter()
    session.reset(slot, 1)
    elapsed = (time.perf_counter() - start) * 1e3
    session.close()
    return elapsed


def _warm_start(level: Isolation) -> float:
    """Milliseconds from a locked-in worker to a program's first observation: load, reset."""
    session = Session(_program(_TRIVIAL), isolation=level)
    slot = session.open()
    session.prepare()
    start = time.perf_counter()
    session.reset(slot, 1)
    elapsed = (time.perf_counter() - start) * 1e3
    session.close()
    return elapsed


def _kill_overshoot(level: Isolation) -> float:
    """Milliseconds from the deadline of a hung step until its process is dead."""
    seconds = 0.1
    session = Session(_program(_HANGING), isolation=level, limits=Limits(step_seconds=seconds))
    slot = session.open()
    session.reset(slot, 1)
    watch = session.death_watch()
    start = time.perf_counter()
    try:
        session.step(slot, _ACTION)
    except ProgramTimeout:
        watch.wait(2.0)
        return (time.perf_counter() - start - seconds) * 1e3
    finally:
        watch.close()
        session.close()
    raise AssertionError("a hanging step did not time out")


def _leaks(level: Isolation, num_programs: int) -> dict[str, int]:
    """Open many different programs in turn; count what is left of descriptors, processes and memory (kB)."""

    def state() -> tuple[int, int, int]:
        with open("/proc/self/status") as file:
            memory = next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
        return len(os.listdir("/proc/self/fd")), _num_descendants(os.getpid()), memory

    def play(number: int) -> None:
        with Session(_program(_TRIVIAL + f"\n# program {number}\n"), isolation=level) as session:
            slot = session.open()
            session.reset(slot, number)
            session.step(slot, _ACTION)

    for number in range(50):
        play(number)
    before = state()
    for number in range(num_programs):
        play(1000 + number)
    time.sleep(0.2)
    after = state()
    names = ("leaked_descriptors", "leaked_processes", "grown_memory_kb")
    return dict(zip(names, (int(b - a) for a, b in zip(before, after, strict=True)), strict=True))


def _num_descendants(pid: int) -> int:
    parents: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as file:
                    fields = file.read().rsplit(")", 1)[1].split()
            except OSError:  # it ended meanwhile
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry))
    found, todo = 0, [pid]
    while todo:
        children = parents.get(todo.pop(), [])
        found += len(children)
        todo += children
    return found


def measure(*, repetitions: int = 9, num_programs: int = 1000, isolation: str | None = None) -> dict[str, Any]:
    """Run the whole benchmark.

    Args:
        repetitions: Counted repetitions of each comparison; medians are reported.
        num_programs: Programs opened in turn for the leak count.
        isolation: Level to measure; absent: the default one.

    Returns:
        Microseconds (``…_us``), milliseconds (``…_ms``), ratios and counts, with the machine they hold for.
    """
    level = resolve_level(Isolation.parse(isolation))
    steps = _steps(repetitions, level)
    zygote_pool().fork(level, "standard", World().hash_seed, _LIMITS).kill()
    direct = steps["direct"]
    medians = {
        name: statistics.median(function(level) for _ in range(3 * repetitions))
        for name, function in (
            ("cold_first_observation_ms", _cold_start),
            ("warm_first_observation_ms", _warm_start),
            ("kill_overshoot_ms", _kill_overshoot),
        )
    }
    result: dict[str, Any] = {
        "direct_us": direct,
        "single_extra_us": steps["single"] - direct,
        "batch64_extra_us": steps["batch64"] - direct,
        "batch256_extra_us": steps["batch256"] - direct,
        "sync64_extra_us": steps["sync64"] - direct,
        "async64_extra_us": steps["async64"] - direct,
        "async64_over_batch64": steps["async64"] / steps["batch64"],
        "slow100_batch64_ratio": _slow_ratio(repetitions, level, None),
        "slow100_batch64_one_worker_ratio": _slow_ratio(repetitions, level, 1),
        **medians,
        **_leaks(level, num_programs),
    }
    result = {key: round(value, 3) if isinstance(value, float) else value for key, value in result.items()}
    return {
        **result,
        "isolation": level.name,
        "num_programs": num_programs,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "numpy": np.__version__,
        "gymnasium": gymnasium.__version__,
    }


#: The bounds of this project, on 2 cores: name, bound, and whether it is an upper one.
GOALS = (
    ("single_extra_us", 40.0, True),
    ("batch64_extra_us", 2.5, True),
    ("batch256_extra_us", 2.0, True),
    ("slow100_batch64_ratio", 1.15, True),
    ("async64_over_batch64", 10.0, False),
    ("cold_first_observation_ms", 6.0, True),
    ("warm_first_observation_ms", 2.0, True),
    ("kill_overshoot_ms", 20.0, True),
    ("leaked_descriptors", 0.0, True),
    ("leaked_processes", 0.0, True),
)
