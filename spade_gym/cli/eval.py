"""``spade-gym eval --model M --suite S``: avg@k and pass@k on held-out tasks, with intervals, beside a base."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

from spade_gym.cli.eval_report import print_evaluation
from spade_gym.cli.terminal_report import TerminalReport
from spade_gym.evaluation.evaluate import evaluate
from spade_gym.evaluation.settings import EvaluationSettings
from spade_gym.selfplay.recipe_file import override
from spade_gym.selfplay.settings_table import read_table

_INCOMPLETE = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``spade-gym eval``."""
    parser.epilog = (
        "example: spade-gym eval --model smollm2 --suite reasoning-gym:chain_sum,leg_counting --k 4 --tasks 8; "
        "see docs/evaluation.md"
    )
    parser.add_argument(
        "--model", required=True, metavar="SPEC", help="as in recipes, or the folder of a self-play run"
    )
    parser.add_argument(
        "--suite", required=True, help="reasoning-gym[:NAME,…], bfcl[:CATEGORY,…], FILE.jsonl, or programs (a pool, …)"
    )
    parser.add_argument("--base", metavar="SPEC", help="compare with it; 'initial': the model with which the run began")
    parser.add_argument("--k", type=int, metavar="K", help="samples of each task (32)")
    parser.add_argument("--tasks", type=int, metavar="N", help="instances of each program, or questions (see the docs)")
    parser.add_argument("--seed", type=int, metavar="S", help="of instances, shuffles and draws (0)")
    parser.add_argument("--checkpoint", metavar="last|N", help="which checkpoint of a run counts, declared beforehand")
    parser.add_argument("--out", type=Path, metavar="DIR", help="the evaluation's folder; the same one goes on")
    parser.add_argument(
        "--set", action="append", default=[], dest="overrides", metavar="KEY=VALUE",
        help="another setting, for example agent.turn_tokens=512",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Evaluate, print what was found, and return 0; 1 where a model failed and samples are missing."""
    table: dict[str, Any] = {
        name: getattr(args, name) for name in ("k", "tasks", "seed", "checkpoint") if getattr(args, name) is not None
    }
    for text in args.overrides:
        override(table, text)
    settings = read_table(EvaluationSettings, table, "the evaluation's settings:")
    folder = args.out or Path("evaluations") / _folder_name(args.model, args.suite)
    try:
        found = evaluate(
            args.model, args.suite, base=args.base, folder=folder, report=TerminalReport(),
            **{name: getattr(settings, name) for name in settings.__slots__},
        )  # fmt: skip
    except KeyboardInterrupt:
        print(f"\nstopped; the same command goes on: results are in {folder}", file=sys.stderr)
        raise
    if args.json:
        print(json.dumps({**found.to_json(), "folder": str(folder)}, indent=2))
    else:
        print_evaluation(found, folder)
    return _INCOMPLETE if found.missing else 0


def _folder_name(model: str, suite: str) -> str:
    """A name for the folder where none is given: one word, whatever model and suite are."""
    words = re.sub(r"[^A-Za-z0-9.]+", "-", f"{Path(suite).name} {model}").strip("-.")
    return words[:100] or "evaluation"
