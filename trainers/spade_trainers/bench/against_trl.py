"""The figures beside TRL: time and memory of an update, and tokens a second, on one workload."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from spade_trainers.bench.duel import Say, faster_precision, in_turn, processes, ratio_of, why_no_trl
from spade_trainers.bench.workload import Workload

#: Our side without what TRL has not; it is measured a few times only.
_ALONE, _FEW = "ours, nothing shared", 2


def compare_updates(workload: Workload, *, repetitions: int, say: Say, try_precisions: bool = True) -> dict[str, Any]:
    """Measure updates; without TRL, ours alone, and the ratios are ``None`` with a reason.

    Ratios of times are medians over rounds, in each of which every side has its turn. Memory is what a process holds at
    its peak over what it holds between updates (weights and moments, no gradients).

    Args:
        workload: What both compute.
        repetitions: Medians are over as many.
        say: Is told how it goes.
        try_precisions: Whether the workload's precision is replaced by the one in which TRL is faster here.
    """
    reason = why_no_trl()
    tried: dict[str, float] = {}
    if reason is None and try_precisions:
        precision, tried = faster_precision(workload, say)
        workload = replace(workload, precision=precision)
    kinds = {"ours": ("ours", workload), _ALONE: ("ours", replace(workload, shared=False))}
    if reason is None:
        kinds["trl"] = ("trl", workload)
    with processes(kinds) as sides:
        settings = {name: side.setting for name, side in sides.items()}
        times = in_turn(sides, "update", repetitions, say, fewer={_ALONE: _FEW})
        memory = {name: side.ask("memory") for name, side in sides.items()}
    above = {name: _above(found) for name, found in memory.items()}
    trl, ours, alone = times.get("trl"), times["ours"], times[_ALONE]
    return {
        "update_time_over_trl": trl and round(ratio_of(ours.walls, trl.walls), 4),
        "update_processor_time_over_trl": trl and round(ratio_of(ours.processors, trl.processors), 4),
        "update_processor_time_over_trl_nothing_shared": trl and round(ratio_of(alone.processors, trl.processors), 4),
        "peak_memory_over_trl": _ratio(above["ours"], above.get("trl")),
        "peak_memory_over_trl_nothing_shared": _ratio(above[_ALONE], above.get("trl")),
        "update_reason": reason,
        "peak_memory_reason": reason or _no_memory(above),
        "update": {
            "workload": workload.as_json(),
            "trl_processor_seconds_by_precision": tried,
            "repetitions": repetitions,
            "sides": {
                name: {
                    "setting": settings[name], **times[name].as_json(),
                    "peak_mib": memory[name]["peak_mib"], "between_updates_mib": memory[name]["resident_mib"],
                    "above_mib": above[name],
                }
                for name in kinds
            },
        },
    }  # fmt: skip


def compare_generation(workload: Workload, *, repetitions: int, say: Say) -> dict[str, Any]:
    """Measure tokens a second of the engine that plays in the trainer's process, and of TRL's own generation.

    Args:
        workload: In single precision, in which both sides keep their weights.
        repetitions: Medians are over as many.
        say: Is told how it goes.
    """
    reason = why_no_trl()
    kinds = {"ours": ("ours", workload)} | ({} if reason else {"trl": ("trl", workload)})
    with processes(kinds) as sides:
        times = in_turn(sides, "generate", repetitions, say)
    ours, trl = times["ours"], times.get("trl")
    rate = trl and ratio_of(trl.walls, ours.walls) * ours.tokens / trl.tokens
    return {
        "generation_over_trl": rate and round(rate, 4),
        "generation_reason": reason,
        "generation": {
            "workload": workload.as_json(),
            "repetitions": repetitions,
            "sides": {name: time.as_json() for name, time in times.items()},
        },
    }


def compare_checkpointed(workload: Workload, *, say: Say) -> dict[str, Any]:
    """Measure one update, after another, where both sides compute activations twice: where memory is short.

    Args:
        workload: Its precision is that of both.
        say: Is told how it goes.
    """
    reason = why_no_trl()
    workload = replace(workload, checkpointing=True)
    kinds = {"ours": ("ours", workload)} | ({} if reason else {"trl": ("trl", workload)})
    with processes(kinds) as sides:
        times = in_turn(sides, "update", 1, say)
        above = {name: _above(side.ask("memory")) for name, side in sides.items()}
    other = times["trl"].processor if "trl" in times else None
    return {
        "checkpointed_processor_time_over_trl": _ratio(times["ours"].processor, other),
        "checkpointed_memory_over_trl": _ratio(above["ours"], above.get("trl")),
        "checkpointed_reason": reason or _no_memory(above),
        "checkpointed": {
            "workload": workload.as_json(),
            "sides": {name: {**time.as_json(), "above_mib": above[name]} for name, time in times.items()},
        },
    }


def _ratio(ours: float | None, other: float | None) -> float | None:
    return None if ours is None or not other else round(ours / other, 4)


def _above(memory: dict[str, Any]) -> float | None:
    peak, resident = memory["peak_mib"], memory["resident_mib"]
    return None if peak is None or resident is None else round(float(peak) - float(resident), 1)


def _no_memory(above: dict[str, float | None]) -> str | None:
    return "this system does not tell memory in /proc/self/status" if None in above.values() else None
