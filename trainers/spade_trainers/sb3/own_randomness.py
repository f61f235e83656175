"""Stable-Baselines3 draws from global generators; here it gets seeded ones, and everybody else's stay as they were."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator

import numpy as np
import torch


@contextlib.contextmanager
def own_randomness(seed: int, number: int) -> Iterator[None]:
    """Seed the global generators of random, NumPy and torch, and put them back at the end.

    Args:
        seed: Of the run.
        number: Of the piece of work, so that each draws anew and a repeated one draws the same.
    """
    before = random.getstate(), np.random.get_state()  # noqa: NPY002
    word = int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
    with torch.random.fork_rng(devices=[]):
        random.seed(word)
        np.random.seed(word)  # noqa: NPY002
        torch.manual_seed(word)
        try:
            yield
        finally:
            random.setstate(before[0])
            np.random.set_state(before[1])  # noqa: NPY002
