"""``python -m spade_trainers.skyrl_bridge dataset FOLDER FILE.jsonl`` and ``… overrides RECIPE``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from spade_gym.errors import SpadeError
from spade_gym.selfplay.recipe_file import read_recipe
from spade_trainers.skyrl_bridge.dataset import programs_of, write_dataset
from spade_trainers.skyrl_bridge.overrides import overrides_of


def main(arguments: list[str]) -> int:
    """Run one of the commands; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m spade_trainers.skyrl_bridge", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    dataset = commands.add_parser("dataset", help="write the programs of a pool or of a run's last pool as a data set")
    dataset.add_argument("folder", type=Path)
    dataset.add_argument("file", type=Path)
    dataset.add_argument("--seed", type=int, default=0, help="of the instances")
    overrides = commands.add_parser("overrides", help="print a recipe's settings as SkyRL's overrides")
    overrides.add_argument("recipe")
    told = parser.parse_args(arguments)
    try:
        if told.command == "dataset":
            print(f"{write_dataset(programs_of(told.folder), told.file, seed=told.seed)} programs in {told.file}")
        else:
            print("\n".join(overrides_of(read_recipe(told.recipe))))
    except (SpadeError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
