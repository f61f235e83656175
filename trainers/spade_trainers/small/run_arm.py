"""One measured run: the cycle with a recipe, then the suite; ``python -m spade_trainers.small.run_arm FOLDER …``.

A process of its own, so that several run side by side and each knows what it cost. Killed and started again it goes
on; what it measured is in ``result.json`` of its folder, written last.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import resource
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spade_gym.selfplay.recipe import Recipe
from spade_gym.selfplay.recipe_file import read_recipe
from spade_gym.selfplay.run import Run, Silence, open_run
from spade_gym.selfplay.selfplay import selfplay
from spade_gym.selfplay.trainer import UpdateBatch
from spade_trainers.small.suite import measure, suite_orders

RESULT, WATCHED = "result.json", "suite.jsonl"
#: Programs of each family and length, and instances of each.
PROGRAMS, INSTANCES = 6, 16


class _Lines(Silence):
    """Says one line at a time."""

    def say(self, text: str) -> None:
        """Print it."""
        print(text, flush=True)


class _Watched:
    """A trainer that plays the suite before every so many updates, and writes the shares won into the run's folder."""

    def __init__(self, run: Run, every: int) -> None:
        self._run = run
        self._every = every
        self._path = run.store.folder / WATCHED
        rows = map(json.loads, self._path.read_text().splitlines() if self._path.is_file() else ())
        self._known: dict[int, dict[str, float]] = {row["updates"]: row["tiers"] for row in rows}

    def update(self, batch: UpdateBatch) -> Mapping[str, float]:
        """Measure where it is time to, then update."""
        if batch.rollout % self._every == 0 and batch.rollout < self._run.recipe.cycle.rollouts:
            self.measure(batch.rollout)
        return self._run.trainer.update(batch)

    def measure(self, updates: int) -> dict[str, float]:
        """Return what the suite says after so many updates."""
        if updates not in self._known:
            self._known[updates] = suite_rates(self._run)
            with self._path.open("a") as file:
                file.write(json.dumps({"updates": updates, "tiers": self._known[updates]}) + "\n")
        return self._known[updates]

    def save(self, folder: Path) -> None:
        """Save the trainer."""
        self._run.trainer.save(folder)

    def load(self, folder: Path) -> None:
        """Load it."""
        self._run.trainer.load(folder)


def measured_run(recipe: Recipe, folder: Path, *, every: int = 0, quiet: bool = True) -> dict[str, Any]:
    """Run the cycle to its end, play the suite with its last weights, and write both down.

    Args:
        recipe: Of the run.
        folder: Of the run.
        every: The suite is also played before every so many updates; 0 for only at the end.
        quiet: Whether nothing is printed.
    """
    path = folder / RESULT
    if path.is_file():
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    with open_run(recipe, folder, report=Silence() if quiet else _Lines()) as run:
        watch = _Watched(run, every)
        selfplay(dataclasses.replace(run, trainer=watch) if every else run)
        tiers = watch.measure(recipe.cycle.rollouts)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    result = {"tiers": tiers, "cpu_seconds": sum(item.ru_utime + item.ru_stime for item in used)}
    with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as file:
        json.dump(result, file)
    os.replace(file.name, path)
    return result


def suite_rates(run: Run) -> dict[str, float]:
    """Play the suite of the run's skills with the present weights; shares won by tier and by ``family/length``."""
    orders = suite_orders(run.recipe.cycle.skills, programs=PROGRAMS, instances=INSTANCES)
    found = measure(run.agent, orders, run.recipe.agent.player())
    return {name: tier.rate for name, tier in found.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="of the run")
    parser.add_argument("--recipe", default="small")
    parser.add_argument("--every", type=int, default=0, metavar="N", help="also measure before every N-th update")
    parser.add_argument("--set", action="append", default=[], dest="overrides", metavar="KEY=VALUE")
    args = parser.parse_args(arguments)
    result = measured_run(read_recipe(args.recipe, args.overrides), args.folder, every=args.every, quiet=False)
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
