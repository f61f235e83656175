"""``spade-gym demo``: a whole self-play run with the small model, in minutes on a CPU.

The run itself belongs to the trainers, which the core does not know: it is a plugin of ``spade_gym.commands``.
"""

from __future__ import annotations

import argparse

from spade_gym import plugins


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    plugins.load("commands", "demo").add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Run it."""
    return int(plugins.load("commands", "demo").run(args))
