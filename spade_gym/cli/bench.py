"""``spade-gym bench``: measurements, printed with the bounds that this project sets itself."""

from __future__ import annotations

import argparse
import json
from typing import Any

from spade_gym import plugins

_PLUGGED = "bench-"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    benchmarks = parser.add_subparsers(dest="benchmark", required=True, metavar="BENCHMARK")
    throughput = benchmarks.add_parser("throughput", help="what isolation costs a step, and starting and killing")
    throughput.add_argument("--json", action="store_true", help="print one JSON object")
    throughput.add_argument("--isolation", metavar="LEVEL", help="L3, L2 or L1; default: the strongest that works here")
    throughput.add_argument("--repetitions", type=int, default=9, metavar="N", help="medians are over N (default 9)")
    throughput.add_argument("--programs", type=int, default=1000, metavar="N", help="programs opened in turn")
    rollout = benchmarks.add_parser("rollout", help="what a rollout costs beside the model, and whether memory is flat")
    rollout.add_argument("--json", action="store_true", help="print one JSON object")
    rollout.add_argument("--quick", action="store_true", help="few plays, no engine, seconds: that it runs")
    estimators = benchmarks.add_parser("estimators", help="how well few plays tell what a hint is worth, simulated")
    estimators.add_argument("--json", action="store_true", help="print one JSON object")
    estimators.add_argument("--pools", type=int, default=400, metavar="N", help="simulated pools of 24 (default 400)")
    estimators.add_argument("--seed", type=int, default=0, metavar="S", help="of the simulation (default 0)")
    curricula = benchmarks.add_parser("curricula", help="which presets help on a toy and on mazes, and their cost")
    curricula.add_argument("--json", action="store_true", help="print one JSON object")
    curricula.add_argument("--seeds", type=int, metavar="N", help="runs of each kind (default 10; 2 if quick)")
    curricula.add_argument("--quick", action="store_true", help="small budgets, less than a minute: that it runs")
    curricula.add_argument("--cost", action="store_true", help="only the cost of asking and telling")
    curricula.add_argument("--jobs", type=int, default=1, metavar="N", help="processes at a time (default 1)")
    for name, part in _plugged().items():
        part.add_arguments(benchmarks.add_parser(name, help=part.SUMMARY, description=part.SUMMARY))


def _plugged() -> dict[str, Any]:
    """Benchmarks of other packages: plugins ``bench-NAME`` of ``spade_gym.commands``, which import little."""
    names = [plugin.name for plugin in plugins.available("commands") if plugin.name.startswith(_PLUGGED)]
    return {name.removeprefix(_PLUGGED): plugins.load("commands", name) for name in names}


def run(args: argparse.Namespace) -> int:
    """Run the chosen benchmark; the exit status says only whether it ran, not whether the bounds held."""
    runners = {
        "estimators": _run_estimators, "throughput": _run_throughput, "curricula": _run_curricula,
        "rollout": _run_rollout,
    }  # fmt: skip
    if args.benchmark in runners:
        return runners[args.benchmark](args)
    return int(_plugged()[args.benchmark].run(args))


def _run_curricula(args: argparse.Namespace) -> int:
    from spade_gym.bench.curricula import Size, measure
    from spade_gym.bench.curricula_cost import measure as measure_cost
    from spade_gym.bench.curricula_report import report, report_cost
    from spade_gym.errors import SpadeError

    size = Size.quick() if args.quick else Size()
    if args.seeds is not None:
        size = size._replace(seeds=args.seeds)
    if size.seeds < 1 or args.jobs < 1:
        raise SpadeError(f"--seeds and --jobs must be at least 1, got {size.seeds} and {args.jobs}")
    result = measure_cost(num_pairs=size.cost_pairs) if args.cost else measure(size, jobs=args.jobs)
    if args.json:
        print(json.dumps(result, indent=2))
    else:
        print("\n".join(report_cost(result) if args.cost else report(result)))
    return 0


def _run_estimators(args: argparse.Namespace) -> int:
    from spade_gym.bench.estimator_report import report
    from spade_gym.bench.estimators import simulate
    from spade_gym.bench.machine import machine_and_date
    from spade_gym.errors import SpadeError

    if args.pools < 2 or args.seed < 0:
        raise SpadeError(f"--pools must be at least 2 and --seed at least 0, got {args.pools} and {args.seed}")
    result = {**machine_and_date(), **simulate(num_pools=args.pools, seed=args.seed)}
    if args.json:
        print(json.dumps(result, indent=2))
    else:
        print("\n".join(report(result)))
    return 0


def _run_throughput(args: argparse.Namespace) -> int:
    from spade_gym.bench.throughput import GOALS, measure

    result = measure(repetitions=args.repetitions, num_programs=args.programs, isolation=args.isolation)
    return _print(result, GOALS, as_json=args.json)


def _run_rollout(args: argparse.Namespace) -> int:
    from spade_gym.bench.rollout import GOALS, Size, measure

    return _print(measure(Size.quick() if args.quick else Size()), GOALS, as_json=args.json)


def _print(result: dict[str, Any], bounds: tuple[tuple[str, float, bool], ...], *, as_json: bool) -> int:
    if as_json:
        print(json.dumps(result, indent=2))
        return 0
    goals = {name: (bound, upper) for name, bound, upper in bounds}
    for name, value in result.items():
        note = ""
        if name in goals and value is not None:
            bound, upper = goals[name]
            met = value <= bound if upper else value >= bound
            note = f"   {'at most' if upper else 'at least'} {bound:g}: {'met' if met else 'MISSED'}"
        print(f"{name:28} {value!s:>12}{note}")
    return 0
