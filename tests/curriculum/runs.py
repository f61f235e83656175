"""Runs of a curriculum whose outcomes follow from the tickets alone, for tests that stop and resume them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from spade_gym.curriculum import preset
from spade_gym.curriculum.curriculum import Curriculum
from spade_gym.curriculum.durable import DurableCurriculum
from spade_gym.curriculum.generators import Parameters, SlidingDifficulty
from spade_gym.curriculum.store import Store
from spade_gym.curriculum.task import Outcome, Task, Ticket

SPACE = {"size": (3, 40), "holes": (0.0, 1.0), "kind": ["maze", "cave"]}
#: Small enough that memories are full, rounds end and screenings come again within a few hundred asks.
SMALL = {
    "sfl": {"schedule": {"num_screened": 10, "plays": 2, "train_asks": 50}},
    "spade": {"schedule": {"num_tasks": 4, "plays": 4, "hint_plays": 4}},
    "spade-lp": {"schedule": {"num_tasks": 4, "plays": 4}},
    "spade-solve-rate": {"schedule": {"num_tasks": 4, "plays": 4}},
}


def make(name: str = "accel", *, seed: int = 3, capacity: int = 20, group_size: int = 1) -> Curriculum:
    generator = SlidingDifficulty() if name == "rlve-window" else Parameters(SPACE)
    options = {"memory": {"capacity": capacity}, **SMALL.get(name, {})}
    return preset.make(name, generator=generator, seed=seed, group_size=group_size, **options)


def outcomes_of(ticket: Ticket) -> list[Outcome]:
    """What a player of fixed skill makes of a ticket."""
    outcomes = []
    for seed in ticket.seeds:
        total = ((seed // 7 + int(ticket.task.id[:6], 16)) % 11) / 10
        status = "env_error" if seed % 17 == 0 else "ok"
        outcomes.append(Outcome(ticket.id, seed, total=total, won=total > 0.7, length=seed % 9, status=status))  # type: ignore[arg-type]
    return outcomes


def play(curriculum: Curriculum | DurableCurriculum, num_tickets: int) -> list[Ticket]:
    tickets = []
    for _ in range(num_tickets):
        tickets.append(curriculum.ask("a"))
        for outcome in outcomes_of(tickets[-1]):
            curriculum.tell(outcome)
    return tickets


def same(ticket: Ticket) -> tuple[int, str, tuple[int, ...], str, bool]:
    """What must agree between two runs."""
    return (ticket.id, ticket.task.id, ticket.seeds, ticket.arm, ticket.train)


def crash(store: Store, to: Path) -> Path:
    """Copy a store's files as a ``kill -9`` at this moment would leave them."""
    to.mkdir()
    for file in store.folder.iterdir():
        if not file.name.endswith((".lock", "-shm")):
            shutil.copy(file, to / file.name)
    return to


def play_until_killed(folder: str, log: str, num_outcomes: int, durability: str) -> None:
    """Play, and write a line to ``log`` after every tell that has returned (in a process that will be killed)."""
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    store = Store(folder, durability=durability)  # type: ignore[arg-type]
    with DurableCurriculum(make(), store, snapshot_every=40) as curriculum:
        os.write(file, b"opened\n")
        while curriculum.curriculum.receipts.total() < num_outcomes:
            for outcome in outcomes_of(curriculum.ask("a")):
                curriculum.tell(outcome)
                os.write(file, f"{outcome.ticket} {outcome.seed}\n".encode())


def task(**value: object) -> Task:
    return Task("reset", value)
