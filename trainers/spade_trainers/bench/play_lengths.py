"""How long real plays are, and what they begin with alike: kept without their words.

``play_lengths.json`` was written by ``python -m spade_trainers.bench.play_lengths RUN`` from a run of the recipe
``recorded-demo`` with SmolLM2: the plays without hint, which are those that are learnt from.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from spade_gym.models.sample import Sample
from spade_gym.selfplay.run_store import RunStore
from spade_gym.selfplay.trainer import Trajectory
from spade_trainers.grpo.prefixes import tree_of

_NAME = "play_lengths.json"


def read_lengths() -> dict[str, Any]:
    """Return what is kept.

    Returns:
        ``segments``: lengths of pieces of token ids; ``samples``: which of them each sample is made of (``path``), and
        where it was sampled (``sampled``: ranges, first and behind the last); ``source`` in words.
    """
    found: dict[str, Any] = json.loads(files("spade_trainers.bench").joinpath(_NAME).read_text("utf-8"))
    return found


def trajectories_of(lengths: dict[str, Any], vocabulary: int) -> list[Trajectory]:
    """Return trajectories of made-up tokens with these lengths and beginnings; advantages are 1 and -1 in turn.

    Args:
        lengths: As from :func:`read_lengths`.
        vocabulary: Number of token ids.
    """
    rng = np.random.default_rng(0)
    segments = [tuple(map(int, rng.integers(2, vocabulary, size=size))) for size in lengths["segments"]]
    found = []
    for number, one in enumerate(lengths["samples"]):
        ids = tuple(itertools.chain.from_iterable(segments[index] for index in one["path"]))
        mask = [0] * len(ids)
        for first, behind in one["sampled"]:
            mask[first:behind] = [1] * (behind - first)
        logprobs = tuple(-float(np.log(vocabulary)) if kept else 0.0 for kept in mask)
        sample = Sample(ids, tuple(mask), logprobs, logprobs, (0,))
        found.append(Trajectory(str(number), "agent", "g", 0.0, 1.0 - 2.0 * (number % 2), (sample,), 0))
    return found


def lengths_of(samples: Iterable[Sample], source: str) -> dict[str, Any]:
    """Return the lengths of samples and what they begin with alike."""
    held = list(samples)
    tree = tree_of([sample.ids for sample in held], 1)
    return {
        "source": source,
        "segments": [len(segment.ids) for segment in tree.segments],
        "samples": [
            {"path": list(path), "sampled": _ranges(sample.mask)} for path, sample in zip(tree.paths, held, strict=True)
        ],
    }


def _ranges(mask: tuple[int, ...]) -> list[list[int]]:
    edges = np.flatnonzero(np.diff([0, *mask, 0]))
    return [[int(first), int(behind)] for first, behind in edges.reshape(-1, 2)]


def main(folder: str) -> None:
    """Write the file from a run's folder."""
    with RunStore(folder, read_only=True) as store:
        rollouts = [row["rollout"] for row in store.rows("SELECT DISTINCT rollout FROM plays ORDER BY rollout")]
        plays = [play for rollout in rollouts for play in store.plays(rollout, "plain").values()]
    source = f"recipe recorded-demo, SmolLM2-135M, {len(plays)} plays without hint of {len(rollouts)} rollouts"
    found = lengths_of((sample for play in plays for sample in play.samples), source)
    Path(__file__).with_name(_NAME).write_text(json.dumps(found) + "\n", "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
