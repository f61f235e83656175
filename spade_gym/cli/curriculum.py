"""``spade-gym curriculum``: look at what a curriculum did."""

from __future__ import annotations

import argparse
import json
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("presets", help="list the presets: the known methods, and where they come from")
    plot = actions.add_parser("plot", help="draw what was played when, win rate, regret and the tasks' composition")
    plot.add_argument("run", metavar="RUN", help="a run's folder, or a JSON file: a curriculum's state or its memory")
    plot.add_argument("-o", "--output", metavar="FILE", help="the picture (default: curriculum.png beside the run)")
    plot.add_argument("--tensorboard", metavar="FOLDER", help="write scalars there instead of a picture")
    plot.add_argument("--json", action="store_true", help="print the numbers over time instead of a picture")


def run(args: argparse.Namespace) -> int:
    """Run the chosen action."""
    return _list_presets() if args.action == "presets" else _plot(args)


def _list_presets() -> int:
    from spade_gym.curriculum import preset

    for name in preset.names():
        note = " (default)" if name == preset.DEFAULT else ""
        print(f"{name + note:20} {preset.table(name)['source']}")
    return 0


def _plot(args: argparse.Namespace) -> int:
    from spade_gym.curriculum.plot import plot, write_scalars
    from spade_gym.curriculum.run_history import curves, read_history

    history = read_history(args.run)
    if args.json:
        numbers = [{"name": name, "time": time, "value": value} for name, time, value in curves(history).scalars()]
        print(json.dumps({"unit": history.unit, "num_tasks": len(history.ids), "scalars": numbers}))
    elif args.tensorboard:
        print(f"{write_scalars(history, args.tensorboard)} numbers written to {args.tensorboard}")
    else:
        place = Path(args.run)
        output = args.output or (place if place.is_dir() else place.parent) / "curriculum.png"
        print(plot(history, output, title=place.name))
    return 0
