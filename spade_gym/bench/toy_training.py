"""Teach the toy environment's student by the tickets of a curriculum, and count the cells that it masters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spade_gym.bench.toy_env import NUM_CELLS, NUM_EPISODES, Feedback, ToyEnv
from spade_gym.curriculum import preset
from spade_gym.curriculum.generators import Generator, Parameters, SlidingDifficulty
from spade_gym.curriculum.task import Outcome, Ticket

#: The preset that is told an order of tasks: a difficulty is a layer of cells, max(x, y); the seed picks a cell of it.
ORDERED = "rlve-window"


class Mastery(NamedTuple):
    """How a student ended.

    Attributes:
        mastered: Percent of the cells.
        trained_share: Share of the episodes that were to be trained on.
    """

    mastered: float
    trained_share: float


def teach(
    name: str,
    *,
    feedback: Feedback,
    seed: int,
    num_episodes: int = NUM_EPISODES,
    always_teaches: bool = False,
) -> Mastery:
    """Teach a student under a preset.

    Args:
        name: Of the preset.
        feedback: ``noiseless`` or ``bernoulli``.
        seed: Of the curriculum and the feedback.
        num_episodes: Budget, with the episodes that are only for scoring.
        always_teaches: The student learns from those too.
    """
    student = ToyEnv(np.random.default_rng([seed, 1]), feedback=feedback, always_teaches=always_teaches)
    curriculum = preset.make(name, generator=_generator(name), seed=seed)
    trained = 0
    for _ in range(num_episodes):
        ticket = curriculum.ask()
        result = student.play(_cell(ticket), train=ticket.train)
        curriculum.tell(Outcome(ticket.id, ticket.seeds[0], result.total, result.won, 1))
        trained += ticket.train
    return Mastery(student.mastered, trained / num_episodes)


def _generator(name: str) -> Generator:
    if name == ORDERED:
        return SlidingDifficulty(limit=NUM_CELLS - 1)
    return Parameters({"x": (0, NUM_CELLS - 1), "y": (0, NUM_CELLS - 1)})


def _cell(ticket: Ticket) -> tuple[int, int]:
    value = ticket.task.value
    if "difficulty" not in value:
        return value["x"], value["y"]
    layer = value["difficulty"]
    place = ticket.seeds[0] % (2 * layer + 1)
    return (layer, place) if place <= layer else (place - layer - 1, layer)
