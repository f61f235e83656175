"""``spade-gym bench``: measurements, printed with the bounds that this project sets itself."""

from __future__ import annotations

import argparse
import json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    benchmarks = parser.add_subparsers(dest="benchmark", required=True, metavar="BENCHMARK")
    throughput = benchmarks.add_parser("throughput", help="what isolation costs a step, and starting and killing")
    throughput.add_argument("--json", action="store_true", help="print one JSON object")
    throughput.add_argument("--isolation", metavar="LEVEL", help="L3, L2 or L1; default: the strongest that works here")
    throughput.add_argument("--repetitions", type=int, default=9, metavar="N", help="medians are over N (default 9)")
    throughput.add_argument("--programs", type=int, default=1000, metavar="N", help="programs opened in turn")
    estimators = benchmarks.add_parser("estimators", help="how well few plays tell what a hint is worth, simulated")
    estimators.add_argument("--json", action="store_true", help="print one JSON object")
    estimators.add_argument("--pools", type=int, default=400, metavar="N", help="simulated pools of 24 (default 400)")
    estimators.add_argument("--seed", type=int, default=0, metavar="S", help="of the simulation (default 0)")


def run(args: argparse.Namespace) -> int:
    """Run the chosen benchmark; the exit status says only whether it ran, not whether the bounds held."""
    return _run_estimators(args) if args.benchmark == "estimators" else _run_throughput(args)


def _run_estimators(args: argparse.Namespace) -> int:
    from spade_gym.bench.estimator_report import report
    from spade_gym.bench.estimators import simulate
    from spade_gym.errors import SpadeError

    if args.pools < 2 or args.seed < 0:
        raise SpadeError(f"--pools must be at least 2 and --seed at least 0, got {args.pools} and {args.seed}")
    result = simulate(num_pools=args.pools, seed=args.seed)
    if args.json:
        print(json.dumps(result, indent=2))
    else:
        print("\n".join(report(result)))
    return 0


def _run_throughput(args: argparse.Namespace) -> int:
    from spade_gym.bench.throughput import GOALS, measure

    result = measure(repetitions=args.repetitions, num_programs=args.programs, isolation=args.isolation)
    if args.json:
        print(json.dumps(result, indent=2))
        return 0
    goals = {name: (bound, upper) for name, bound, upper in GOALS}
    for name, value in result.items():
        note = ""
        if name in goals:
            bound, upper = goals[name]
            met = value <= bound if upper else value >= bound
            note = f"   {'at most' if upper else 'at least'} {bound:g}: {'met' if met else 'MISSED'}"
        print(f"{name:28} {value!s:>12}{note}")
    return 0
