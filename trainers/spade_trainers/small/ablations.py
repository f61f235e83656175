"""``spade-gym bench ablations``: does the method beat a static pool, and what does each of its parts do?

Runs of the recipe ``small`` with one setting changed, on the same seeds, with equal numbers of plays and updates, each
measured once, with its last weights, on the fixed suite (``suite.py``), which no designer sees. Fixed beforehand: the
checkpoint (the last), the measure (share won over the medium and beyond tiers), the seeds (0, 1, …).

The headline compares ``full`` with ``static pool`` on 8 paired seeds. The others have 3 and are exploratory.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from spade_trainers.small.run_arm import RESULT

SUMMARY = "whether self-play beats a static pool, and what its parts do, with a small model"

#: Settings of each arm over the recipe ``small``. A static pool holds as many programs as a full run writes, all by the
#: warm start's designer, and goes through all of them before any is played again.
ARMS: Mapping[str, tuple[str, ...]] = {
    "full": (),
    "static pool": ("cycle.pool=fixed", "cycle.fixed_programs=96", "designer.train=false"),
    "no memory": ("memory.use=false",),
    "no corpus": ("designer.corpus=none",),
    "no designer training": ("designer.train=false",),
    "no designer training, no memory": ("designer.train=false", "memory.use=false"),
    "solve rate only": ("reward.scorer=solve-rate", 'reward.options={of="win"}', "reward.shrink=false"),
    "learning potential": ("reward.scorer=learning-potential", "reward.options={}", "reward.shrink=false"),
    "plain regret": ('reward.options={of="win", pairing="plain"}', "reward.shrink=false"),
}
HEADLINE, HEADLINE_SEEDS, OTHER_SEEDS = ("full", "static pool"), 8, 3
_TIERS = ("easy", "medium", "beyond")


class Job(NamedTuple):
    """One run.

    Attributes:
        arm: Its name.
        seed: Of the run.
    """

    arm: str
    seed: int

    @property
    def folder(self) -> str:
        """Of the run, below that of the benchmark."""
        return f"{self.arm.replace(',', '').replace(' ', '-')}-{self.seed}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--out", type=Path, default=Path("runs/ablations"), metavar="DIR", help="the runs (%(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="runs at a time (2)")
    parser.add_argument("--seeds", type=int, default=HEADLINE_SEEDS, metavar="N", help="of the headline (8)")
    parser.add_argument("--headline", action="store_true", help="only full against the static pool")
    parser.add_argument(
        "--set", action="append", default=[], dest="overrides", metavar="KEY=VALUE", help="in every run; for trials"
    )


def run(args: argparse.Namespace) -> int:
    """Do the runs that are missing, and report."""
    jobs = [Job(arm, seed) for seed in range(args.seeds) for arm in HEADLINE]
    if not args.headline:
        jobs += [Job(arm, seed) for seed in range(OTHER_SEEDS) for arm in ARMS if arm not in HEADLINE]
    args.out.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(args.jobs) as pool:
        results = dict(zip(jobs, pool.map(lambda job: _result(job, args.out, args.overrides), jobs), strict=True))
    report = summary(results)
    print(json.dumps(report, indent=2) if args.json else "\n".join(lines(report)))
    return 0


def _result(job: Job, out: Path, overrides: Sequence[str]) -> dict[str, Any]:
    folder = out / job.folder
    if not (folder / RESULT).is_file():
        settings = [*overrides, *ARMS[job.arm], f"cycle.seed={job.seed}"]
        command = [sys.executable, "-m", "spade_trainers.small.run_arm", str(folder)]
        command += [part for setting in settings for part in ("--set", setting)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"the run {folder} failed:\n{done.stderr[-2000:]}")
        print(f"{job.arm}, seed {job.seed}: done", file=sys.stderr, flush=True)
    found: dict[str, Any] = json.loads((folder / RESULT).read_text())
    return found


def summary(results: Mapping[Job, Mapping[str, Any]]) -> dict[str, Any]:
    """Means of each arm, and differences of ``full`` to every other on the seeds that both have."""
    arms: dict[str, Any] = {}
    for arm in dict.fromkeys(job.arm for job in results):
        mine = {job.seed: found for job, found in results.items() if job.arm == arm}
        arms[arm] = {
            "seeds": len(mine),
            "cpu_seconds": sum(found["cpu_seconds"] for found in mine.values()) / len(mine),
            **{tier: sum(found["tiers"][tier] for found in mine.values()) / len(mine) for tier in _TIERS},
            "measure": sum(map(measure_of, mine.values())) / len(mine),
        }
    full = {job.seed: measure_of(found) for job, found in results.items() if job.arm == "full"}
    for arm in arms:
        other = {job.seed: measure_of(found) for job, found in results.items() if job.arm == arm}
        shared = sorted(full.keys() & other.keys())
        if arm != "full" and len(shared) > 1:
            arms[arm]["full_minus_this"] = paired_interval([full[seed] - other[seed] for seed in shared])
    return {"arms": arms}


def measure_of(result: Mapping[str, Any]) -> float:
    """The mean of the shares won in the tiers medium and beyond."""
    return float(result["tiers"]["medium"] + result["tiers"]["beyond"]) / 2


def paired_interval(differences: Sequence[float]) -> dict[str, float]:
    """Mean and 95 % t-interval of differences on the same seeds; at least two."""
    import numpy as np
    from scipy import stats

    values = np.asarray(differences)
    half = float(stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    mean = float(values.mean())
    return {"mean": mean, "low": mean - half, "high": mean + half}


def lines(report: Mapping[str, Any]) -> Iterator[str]:
    """The report as a table."""
    yield f"{'arm':<34}{'seeds':>6}{'easy':>7}{'medium':>8}{'beyond':>8}{'CPU-s':>7}   full minus this, 95 % interval"
    for arm, row in report["arms"].items():
        gain = row.get("full_minus_this")
        told = f"{gain['mean']:+.3f} [{gain['low']:+.3f}, {gain['high']:+.3f}]" if gain else ""
        kind = "" if arm in HEADLINE else "  (exploratory)"
        yield (
            f"{arm:<34}{row['seeds']:>6}{row['easy']:>7.2f}{row['medium']:>8.2f}{row['beyond']:>8.2f}"
            f"{row['cpu_seconds']:>7.0f}   {told}{kind if gain else ''}"
        )
