"""``spade-gym demo``: a whole self-play run with the small model, beside one whose designer is not trained."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from spade_gym.cli.terminal import bold
from spade_gym.errors import SpadeError

SUMMARY = "a whole self-play run with a small model, in minutes on a CPU"

#: The two runs and what is set in each.
RUNS = {"self-play": (), "designer not trained": ("designer.train=false",)}
#: Updates between two measurements on the suite.
EVERY = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = "Killed or stopped, the same command goes on. Needs the extra demo: pip install 'spade-gym[demo]'"
    parser.add_argument("--out", type=Path, default=Path("runs/small"), metavar="DIR", help="both runs (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of both runs (0)")
    parser.add_argument("--rollouts", type=int, metavar="N", help="updates of each run (those of the recipe small)")


def run(args: argparse.Namespace) -> int:
    """Run both, print what happened, and draw it."""
    _require_packages()
    from spade_trainers.small.summary import draw, lines

    begun = time.monotonic()
    print(bold("A model of 1.3 million parameters writes programs, plays them, and learns from both"))
    print("   the warm start has seen lists of 2 to 5 items, mostly short ones; the suite goes up to 8\n")
    folders = {name: args.out / name.replace(" ", "-") for name in RUNS}
    _run_both(folders, args)
    print()
    print("\n".join(lines(folders)))
    picture = draw(folders, args.out)
    print(f"\npicture: {picture}   ({time.monotonic() - begun:.0f} s in all)")
    command = "spade-gym" if shutil.which("spade-gym") else sys.argv[0]
    first = next(iter(folders.values()))
    print(f"look inside: {command} run show {first}   ·   {command} run plays {first}")
    return 0


def _run_both(folders: dict[str, Path], args: argparse.Namespace) -> None:
    """Run each in a process of its own with one thread, and pass on what they say."""
    processes: dict[str, subprocess.Popen[str]] = {}
    readers = []
    errors: dict[str, list[str]] = {name: [] for name in folders}
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    try:
        for name, folder in folders.items():
            settings = [*RUNS[name], f"cycle.seed={args.seed}"]
            settings += [f"cycle.rollouts={args.rollouts}"] if args.rollouts else []
            command = [sys.executable, "-m", "spade_trainers.small.run_arm", str(folder), "--every", str(EVERY)]
            command += [part for setting in settings for part in ("--set", setting)]
            process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                text=True,
            )  # fmt: skip
            processes[name] = process
            for stream, told in ((process.stdout, None), (process.stderr, errors[name])):
                readers.append(threading.Thread(target=_pass_on, args=(name, stream, told), daemon=True))
                readers[-1].start()
        statuses = {name: process.wait() for name, process in processes.items()}
        for reader in readers:
            reader.join()
    finally:
        for process in processes.values():
            if process.poll() is None:
                process.terminate()
                process.wait()
    failed = [name for name, status in statuses.items() if status]
    if failed:
        raise SpadeError(f"the run '{failed[0]}' failed: {' '.join(errors[failed[0]][-3:]) or statuses[failed[0]]}")


def _pass_on(name: str, stream: IO[str] | None, told: list[str] | None) -> None:
    """Print a run's lines as they come, or keep them."""
    for line in stream or ():
        if told is not None:
            told.append(line.strip())
        elif line.startswith("epoch") and "pool of" in line:
            print(f"   {name:<22} {line.strip()}", flush=True)


def _require_packages() -> None:
    import importlib.util

    missing = [name for name in ("torch", "transformers", "matplotlib") if importlib.util.find_spec(name) is None]
    if missing:
        raise SpadeError(f"the demo needs {_listed(missing)}: pip install 'spade-gym[demo]' (in a clone '.[demo]')")


def _listed(names: Sequence[str]) -> str:
    return " and ".join(names)
