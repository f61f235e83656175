"""``spade-gym bench trainer``: the trainer ``grpo`` beside TRL's, packing, and what a rollout costs besides."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from spade_gym.bench.machine import machine_and_date
from spade_gym.cli.terminal import visible
from spade_gym.errors import SpadeError

if TYPE_CHECKING:
    from spade_trainers.bench.workload import Precision, Shape

SUMMARY = "the trainer beside TRL's: time, memory, tokens a second; packing; overhead of a rollout"

PARTS = ("update", "generation", "packing", "overhead", "checkpointed")

#: The bounds of this project: name, bound, and whether it is an upper one.
GOALS = (
    ("update_time_over_trl", 0.9, True),
    ("peak_memory_over_trl", 0.8, True),
    ("generation_over_trl", 1.0, False),
    ("packing_speedup", 1.5, False),
    ("overhead_share", 0.05, True),
)
#: Under which name stands why a figure is ``None``.
_REASONS = {
    "update_time_over_trl": "update_reason",
    "peak_memory_over_trl": "peak_memory_reason",
    "generation_over_trl": "generation_reason",
    "packing_speedup": "packing_reason",
    "overhead_share": "overhead_reason",
}


class Size(NamedTuple):
    """How much is measured.

    Attributes:
        shapes: Of the models; the figures of the first stand at the top.
        completion_tokens: Of each of eight completions.
        sampled_tokens: The same where generation is measured.
        updates: Medians are over as many, after one that does not count.
        generations, packings: The same for these.
        packing_plays: Plays packed, 24 are those of one rollout; ``None`` for all.
        agent: Who plays the rollout; "" leaves it out.
    """

    shapes: tuple[Shape, ...] = ("smollm2", "tiny")
    completion_tokens: int = 512
    sampled_tokens: int = 64
    updates: int = 5
    generations: int = 3
    packings: int = 3
    packing_plays: int | None = 24
    agent: str = "smollm2"

    @classmethod
    def quick(cls) -> Size:
        """Return a size of a minute or two: its figures say only that everything runs."""
        return cls(("tiny",), 24, 8, 1, 1, 1, 12, "")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = "with --results, figures that the file holds are not measured again, and new ones are added"
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="a tiny model and short completions: that it runs")
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--models", nargs="+", metavar="MODEL", help="of smollm2 and tiny; default: both")
    parser.add_argument("--results", type=Path, metavar="FILE", help="keep figures there, part by part")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="of PyTorch, on both sides (default 1)")


def run(args: argparse.Namespace) -> int:
    """Measure, print, and return 0: the exit status says only that it ran, not that the bounds held."""
    if args.threads < 1:
        raise SpadeError(f"--threads must be at least 1, got {args.threads}")
    _require_packages()
    size = Size.quick() if args.quick else Size()
    setting = {"size": size._asdict(), "threads": args.threads}
    kept = _read(args.results, setting)
    chosen = args.models or size.shapes
    if unknown := sorted(set(chosen) - set(size.shapes)):
        raise SpadeError(f"there is no model {unknown[0]!r} to be measured; choose of {', '.join(size.shapes)}")
    for shape in (shape for shape in size.shapes if shape in chosen):
        for part in args.only or PARTS:
            if part in kept["parts"].setdefault(shape, {}):
                continue
            precision = kept["figures"].get(shape, {}).get("update", {}).get("workload", {}).get("precision", "float32")
            measure = _measures(size, shape, args.threads, precision).get(part)
            if measure is None:
                continue
            _say(f"{shape}: {part}")
            kept["figures"].setdefault(shape, {}).update(measure())
            kept["parts"][shape][part] = machine_and_date()
            if args.results is not None:
                args.results.write_text(json.dumps(kept, indent=2) + "\n", "utf-8")
    result = result_of(kept, size.shapes)
    if args.json:
        print(json.dumps(result, indent=2))
    else:
        print("\n".join(report(result, size.shapes)))
    return 0


def result_of(kept: dict[str, Any], shapes: Sequence[str]) -> dict[str, Any]:
    """Return the figures of the first shape at the top, the others below their names, and when and where."""
    main, *others = shapes
    dates = {shape: {part: when["date"] for part, when in parts.items()} for shape, parts in kept["parts"].items()}
    figures = kept["figures"]
    return {
        "model": main, **figures.get(main, {}), **{shape: figures.get(shape, {}) for shape in others},
        "threads": kept["setting"]["threads"], "size": kept["setting"]["size"], "measured": dates,
        **machine_and_date(),
    }  # fmt: skip


def report(result: dict[str, Any], shapes: Sequence[str]) -> list[str]:
    """Return lines for a terminal."""
    lines = []
    for number, shape in enumerate(shapes):
        figures = result if number == 0 else result[shape]
        lines.append(f"{shape}:")
        for name, bound, upper in GOALS:
            if name not in figures:
                continue
            value = figures[name]
            reason = figures.get(_REASONS[name], "")
            if value is None:
                lines.append(f"  {name:24} not measured: {visible(str(reason))}")
                continue
            met = value <= bound if upper else value >= bound
            sign = "at most" if upper else "at least"
            lines.append(f"  {name:24} {value:8.3f}   {sign} {bound:g}: {'met' if met else 'MISSED'}")
    return lines


def _measures(size: Size, shape: Shape, threads: int, precision: Precision) -> dict[str, Callable[[], dict[str, Any]]]:
    """Return what is measured for a shape, by part; ``precision`` is the one in which updates were measured."""
    from spade_trainers.bench import against_trl, overhead
    from spade_trainers.bench.layouts import compare_layouts
    from spade_trainers.bench.workload import Workload

    workload = Workload(
        shape=shape, completion_tokens=size.completion_tokens, sampled_tokens=size.sampled_tokens, threads=threads
    )
    measures: dict[str, Callable[[], dict[str, Any]]] = {
        "update": partial(against_trl.compare_updates, workload, repetitions=size.updates, say=_say),
        "checkpointed": partial(against_trl.compare_checkpointed, replace(workload, precision=precision), say=_say),
        "generation": partial(against_trl.compare_generation, workload, repetitions=size.generations, say=_say),
        "packing": partial(
            compare_layouts, shape, precision=precision, threads=threads, repetitions=size.packings,
            num_plays=size.packing_plays, say=_say,
        ),
    }  # fmt: skip
    if shape == size.shapes[0] and size.agent:
        measures["overhead"] = partial(overhead.measure, model=size.agent, threads=threads, say=_say)
    elif shape == size.shapes[0]:
        reason = "--quick plays no rollout"
        measures["overhead"] = lambda: {"overhead_share": None, "overhead_reason": reason}
    return measures


def _read(path: Path | None, setting: dict[str, Any]) -> dict[str, Any]:
    """Return what a results file holds, or an empty one.

    Raises:
        SpadeError: It is of another setting, or no results file.
    """
    told = json.loads(json.dumps(setting))
    empty: dict[str, Any] = {"setting": told, "figures": {}, "parts": {}}
    if path is None or not path.exists():
        return empty
    try:
        kept = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise SpadeError(f"{path} holds no results of this benchmark ({error}); give another file") from error
    if not isinstance(kept, dict) or kept.keys() != empty.keys() or kept["setting"] != told:
        found = kept.get("setting") if isinstance(kept, dict) else None
        raise SpadeError(f"{path} holds results of another setting ({found}, not {told}); give another file")
    return kept


def _require_packages() -> None:
    try:
        import torch  # noqa: F401  (only whether it is there)
        import transformers  # noqa: F401
    except ImportError as error:
        raise SpadeError(
            f"this benchmark needs torch and transformers ({error}): pip install 'spade-gym[grpo]'"
        ) from error


def _say(line: str) -> None:
    print(visible(line), file=sys.stderr, flush=True)
