"""``spade-gym selfplay --recipe NAME``: runs the self-play cycle or goes on with it; ``--dry-run`` prints the plan."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from spade_gym.cli.run_report import print_run
from spade_gym.cli.terminal import visible
from spade_gym.cli.terminal_report import TerminalReport
from spade_gym.selfplay.plan import missing_parts, plan_of
from spade_gym.selfplay.recipe import Recipe
from spade_gym.selfplay.recipe_file import names, read_recipe
from spade_gym.selfplay.run import open_run
from spade_gym.selfplay.selfplay import selfplay


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``spade-gym selfplay``."""
    parser.epilog = "example: spade-gym selfplay --recipe recorded-demo --out runs/demo --set cycle.seed=1"
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--recipe", metavar="NAME", help="a shipped recipe, or a .toml file")
    which.add_argument("--list", action="store_true", help="list the recipes")
    parser.add_argument("--out", type=Path, metavar="DIR", help="the run's folder (runs/NAME); the same one goes on")
    parser.add_argument(
        "--set", action="append", default=[], dest="overrides", metavar="KEY=VALUE", help="for example cycle.rollouts=8"
    )
    parser.add_argument("--dry-run", action="store_true", help="print numbers of calls, plays and tokens, and stop")


def run(args: argparse.Namespace) -> int:
    """Run the cycle, print what came of it, and return 0."""
    if args.list:
        longest = max(map(len, names()))
        for name in names():
            print(f"{name:<{longest}}  {visible(read_recipe(name).title)}")
        return 0
    recipe = read_recipe(args.recipe, args.overrides)
    if args.dry_run:
        _print_plan(args.recipe, recipe)
        return 0
    folder = args.out or Path("runs") / Path(args.recipe).stem
    with open_run(recipe, folder, report=TerminalReport()) as opened:
        try:
            selfplay(opened)
        except KeyboardInterrupt:
            print(f"\nstopped; the same command goes on: the run is in {folder}", file=sys.stderr)
            raise
    print_run(folder)
    return 0


def _print_plan(name: str, recipe: Recipe) -> None:
    plan = plan_of(recipe)
    cycle = recipe.cycle
    print(f"{visible(name)}: {visible(recipe.title)}")
    for note in recipe.notes:
        print(f"  note: {visible(note)}")
    rows = [
        ("models", _who(recipe)),
        ("rollouts", f"{cycle.rollouts:,}; a new pool of {cycle.environments} every {cycle.regenerate_every}"),
        *(("skills" if epoch == 0 else "", f"{epoch}: {', '.join(row)}") for epoch, row in enumerate(plan.skills)),
        ("regenerations", f"{plan.regenerations:,}"),
        ("designer calls", _between(plan.designer_calls)),
        ("hint calls", _between(plan.hint_calls)),
        ("screen calls", _between(plan.screen_calls)),
        ("plays without hint", f"{plan.plain_plays:,}"),
        ("plays with hint", f"{plan.hint_plays:,}"),
        ("turns", f"at most {plan.turns:,}"),
        ("updates", f"at most {plan.updates:,}, by the trainer {recipe.trainer.name}"),
        ("designer tokens", f"at most {plan.designer_tokens:,}"),
        ("agent tokens", f"at most {plan.agent_tokens:,}"),
    ]
    for label, text in rows:
        print(f"  {label:<20} {visible(text)}")
    for text in missing_parts(recipe):
        print(f"  missing: {visible(text)}")


def _who(recipe: Recipe) -> str:
    models, designer = recipe.models, recipe.designer
    behind = models.agent if models.designer == "agent" else models.designer
    uses = designer.name == "model" or recipe.hints.source == "model"
    return f"agent {models.agent}, designer {designer.name}" + (f" (model {behind})" if uses else "")


def _between(calls: tuple[int, int]) -> str:
    low, high = calls
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
