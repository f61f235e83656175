"""Which curriculum helps? Every preset on the toy environment and on mazes, over many seeds, against uniform.

Budgets count every play, also those that are only for scoring (``toy_env.py``, ``maze_training.py``). What is reported
of the seeds is the median with a 95 % bootstrap interval. The presets run as they are; nothing is set per benchmark.

``spade``, ``spade-lp`` and ``spade-solve-rate`` play a pool of tasks all alike, and their score teaches a designer.
None is here to learn from it: new tasks come at random, so these three are measured as samplers only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np

from spade_gym.bench import curricula_cost, maze, toy_env
from spade_gym.bench.machine import machine_and_date
from spade_gym.bench.maze_training import Skill, train
from spade_gym.bench.toy_training import Mastery, teach
from spade_gym.curriculum import preset

TOY_PRESETS = (
    "uniform", "plr", "robust-plr", "accel", "sfl", "alp", "exp3", "rlve-window",
    "spade", "spade-lp", "spade-solve-rate",
)  # fmt: skip
#: Without those that need an order of tasks or a designer; ``exp3`` is the same as ``alp`` here, but for the draw.
MAZE_PRESETS = ("uniform", "plr", "robust-plr", "accel", "sfl", "alp")
#: Those whose plays for scoring could teach too: they are also run with a student that learns from every play.
SCORING = ("robust-plr", "accel", "sfl")
FEEDBACKS: tuple[toy_env.Feedback, ...] = ("noiseless", "bernoulli")
#: What this project demands under Bernoulli feedback: of the best preset, and how far the default may be below it.
BEST_MASTERED, DEFAULT_WITHIN = 95.0, 3.0
_RESAMPLES = 4000


class Size(NamedTuple):
    """How much is run.

    Attributes:
        seeds: Runs of each kind.
        episodes: Budget on the toy environment.
        steps: Budget in mazes.
        held_out: Test mazes of each of two kinds.
        cost_pairs: Asks with tells that are timed.
    """

    seeds: int = 10
    episodes: int = toy_env.NUM_EPISODES
    steps: int = 600_000
    held_out: int = 50
    cost_pairs: int = 2000

    @classmethod
    def quick(cls) -> Size:
        """So little that it takes less than a minute and shows only that everything runs."""
        return cls(seeds=2, episodes=3000, steps=40_000, held_out=10, cost_pairs=300)


def measure(size: Size | None = None, *, jobs: int = 1) -> dict[str, Any]:
    """Run everything; the same size gives the same numbers, but for times.

    Args:
        size: How much; ``None`` for the whole.
        jobs: Processes at a time.

    Raises:
        ValueError: Fewer than 1 seed or job.
    """
    size = size or Size()
    if size.seeds < 1 or jobs < 1:
        raise ValueError(f"seeds and jobs must be at least 1, got {size.seeds} and {jobs}")
    cost = curricula_cost.measure(num_pairs=size.cost_pairs)
    toy, mazes = _toy_runs(size), _maze_runs(size)
    runs: list[_ToyRun | _MazeRun] = [*toy, *mazes]
    results = _run_all(runs, jobs)
    masteries = dict(zip(toy, results[: len(toy)], strict=True))
    skills = dict(zip(mazes, results[len(toy) :], strict=True))
    rows = list(_toy_rows(masteries))
    return {
        **machine_and_date(),
        "size": size._asdict(),
        "default": preset.DEFAULT,
        "toy": {"rows": rows, "goals": _goals(rows)},
        "maze": {"rows": list(_maze_rows(skills)), "settings": maze.settings()},
        "cost": cost,
        "presets": {name: preset.table(name) for name in TOY_PRESETS},
    }


class _ToyRun(NamedTuple):
    name: str
    feedback: toy_env.Feedback
    always_teaches: bool
    seed: int
    episodes: int

    def __call__(self) -> Mastery:
        return teach(
            self.name, feedback=self.feedback, seed=self.seed, num_episodes=self.episodes,
            always_teaches=self.always_teaches,
        )  # fmt: skip


class _MazeRun(NamedTuple):
    name: str
    seed: int
    steps: int
    held_out: int

    def __call__(self) -> Skill:
        return train(self.name, num_steps=self.steps, seed=self.seed, tests=maze.held_out(self.held_out))


def _toy_runs(size: Size) -> list[_ToyRun]:
    kinds = [(name, False) for name in TOY_PRESETS] + [(name, True) for name in SCORING]
    return [
        _ToyRun(name, feedback, always, seed, size.episodes)
        for name, always in kinds
        for feedback in FEEDBACKS
        for seed in range(size.seeds)
    ]


def _maze_runs(size: Size) -> list[_MazeRun]:
    return [_MazeRun(name, seed, size.steps, size.held_out) for name in MAZE_PRESETS for seed in range(size.seeds)]


def _run_all(runs: Sequence[_ToyRun | _MazeRun], jobs: int) -> list[Any]:
    if jobs == 1:
        return [run() for run in runs]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        return list(pool.map(_call, runs))


def _call(run: _ToyRun | _MazeRun) -> Mastery | Skill:
    return run()


def _toy_rows(results: dict[_ToyRun, Mastery]) -> Iterator[dict[str, Any]]:
    for name, always, feedback in dict.fromkeys((run.name, run.always_teaches, run.feedback) for run in results):
        found = [
            result
            for run, result in results.items()
            if (run.name, run.always_teaches, run.feedback) == (name, always, feedback)
        ]
        yield {
            "preset": name, "feedback": feedback, "always_teaches": always,
            "mastered": summary(result.mastered for result in found),
            "trained_share": round(float(np.mean([result.trained_share for result in found])), 3),
        }  # fmt: skip


def _maze_rows(results: dict[_MazeRun, Skill]) -> Iterator[dict[str, Any]]:
    baseline = [result for run, result in results.items() if run.name == MAZE_PRESETS[0]]
    for name in MAZE_PRESETS:
        found = [result for run, result in results.items() if run.name == name]
        gains = [ours.mean - theirs.mean for ours, theirs in zip(found, baseline, strict=True)]
        yield {
            "preset": name,
            "mean": summary(100 * result.mean for result in found),
            "worst_tenth": summary(100 * result.worst_tenth for result in found),
            "mean_over_uniform": summary(100 * gain for gain in gains),
            "trained_share": round(float(np.mean([result.trained_share for result in found])), 3),
        }


def summary(values: Iterable[float]) -> dict[str, Any]:
    """Return the median of some runs, its 95 % bootstrap interval (percentiles), and the values."""
    data = np.array(list(values), dtype=np.float64)
    draws = np.random.default_rng(0).integers(len(data), size=(_RESAMPLES, len(data)))
    low, high = np.quantile(np.median(data[draws], axis=1), (0.025, 0.975))
    return {
        "median": round(float(np.median(data)), 2), "low": round(float(low), 2), "high": round(float(high), 2),
        "values": [round(float(value), 2) for value in data],
    }  # fmt: skip


def _goals(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    noisy = {
        row["preset"]: row["mastered"]["median"]
        for row in rows
        if row["feedback"] == "bernoulli" and not row["always_teaches"]
    }
    best = max(noisy, key=lambda name: noisy[name])
    behind = noisy[best] - noisy[preset.DEFAULT]
    return {
        "best_mastered": {"preset": best, "reached": noisy[best], "bound": BEST_MASTERED,
                          "met": noisy[best] >= BEST_MASTERED},
        "default_within": {"preset": preset.DEFAULT, "reached": round(behind, 2), "bound": DEFAULT_WITHIN,
                           "met": behind <= DEFAULT_WITHIN},
    }  # fmt: skip
