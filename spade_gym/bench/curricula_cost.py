"""What does a curriculum cost per play? Time of ``ask`` and ``tell`` for a small and a large memory, and on the way."""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np

from spade_gym.bench import curricula_transport as transport
from spade_gym.curriculum import preset
from spade_gym.curriculum.curriculum import Curriculum
from spade_gym.curriculum.generators import Parameters
from spade_gym.curriculum.task import Outcome

SIZES = (200, 20_000)
#: What this project allows: µs of an ask and its tell with 200 records, and how much dearer 20,000 records may be.
PAIR_MICROSECONDS, SIZE_RATIO = 100.0, 3.0


def measure(name: str = preset.DEFAULT, *, num_pairs: int = 2000, repetitions: int = 5) -> dict[str, Any]:
    """Measure a preset with full memories, one play per ask, half of them won.

    Tasks come from a family too large to repeat itself, so that new ones are made, scored and evicted all the time.

    Args:
        name: Of the preset.
        num_pairs: Asks with their tells in a repetition.
        repetitions: Each gives means of its asks and tells; reported are the medians of these.

    Returns:
        ``preset``, ``rows`` of ``{records, ask_us, tell_us, pair_us}``, ``served`` and ``wrapper_us`` (see
        ``curricula_transport.py``), and ``goals``.
    """
    rows = [_row(name, size, num_pairs, repetitions) for size in SIZES]
    served = transport.measure_served(name, num_pairs=3 * num_pairs)
    wrapper = transport.measure_wrapper(name, repetitions=2 * repetitions - 1)
    ratio = round(rows[-1]["ask_us"] / rows[0]["ask_us"], 2)
    return {
        "preset": name,
        "rows": rows,
        "served": served,
        "wrapper_us": wrapper,
        "goals": {
            "pair_us": _goal(rows[0]["pair_us"], PAIR_MICROSECONDS),
            "ask_ratio": _goal(ratio, SIZE_RATIO),
            "served_us": _goal(served["served_us"], transport.SERVED_MICROSECONDS),
            "wrapper_us": _goal(wrapper, transport.WRAPPER_MICROSECONDS),
        },
    }


def _goal(reached: float, bound: float) -> dict[str, Any]:
    return {"reached": reached, "bound": bound, "met": reached <= bound}


def _row(name: str, size: int, num_pairs: int, repetitions: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    curriculum = _full(name, size, rng)
    asks, tells = zip(*(_times(curriculum, num_pairs, rng) for _ in range(repetitions)), strict=True)
    ask, tell = (1e6 * statistics.median(times) for times in (asks, tells))
    return {"records": size, "ask_us": round(ask, 1), "tell_us": round(tell, 1), "pair_us": round(ask + tell, 1)}


def _full(name: str, size: int, rng: np.random.Generator) -> Curriculum:
    schedule = {"min_records": size} if "min_records" in preset.table(name)["schedule"] else {}
    curriculum = preset.make(
        name, generator=Parameters({"x": (0, 10**9), "y": (0.0, 1.0)}), memory={"capacity": size}, schedule=schedule
    )
    while len(curriculum.memory) < size:
        _times(curriculum, 100, rng)
    return curriculum


def _times(curriculum: Curriculum, num_pairs: int, rng: np.random.Generator) -> tuple[float, float]:
    """Mean seconds of an ask and of a tell."""
    asking = telling = 0.0
    for won in (rng.random(num_pairs) < 0.5).tolist():
        start = time.perf_counter()
        ticket = curriculum.ask()
        asking += time.perf_counter() - start
        outcome = Outcome(ticket.id, ticket.seeds[0], float(won), won, 1)
        start = time.perf_counter()
        curriculum.tell(outcome)
        telling += time.perf_counter() - start
    return asking / num_pairs, telling / num_pairs
