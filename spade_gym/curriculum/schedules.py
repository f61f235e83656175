"""In which order tasks are made, screened, replayed and mutated: what distinguishes one method from another.

A schedule is asked for more orders whenever none is left. It names records by task id, so that an order for a record
that was evicted meanwhile is recognised and dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from spade_gym.curriculum.finite import true_or_false, whole_number, within
from spade_gym.curriculum.memory import Memory
from spade_gym.curriculum.task import Arm

Source = Literal["new", "replay", "mutate"]


class Order(NamedTuple):
    """One ticket to be written.

    Attributes:
        source: A ``new`` task of the generator, a ``replay`` of a record, or a record's ``mutate``-d child.
        task_id: The record (``replay``, ``mutate``); "" for new ones.
        arm: Of the plays.
        train: Whether to learn from them.
        repeats: Plays of the task, one after the other: tickets, or seeds of them (``Curriculum(group_size=…)``).
        hint_repeats: Further plays with the hint, on the first of the same seeds, not trained on.
        known_repeats: Plays if what the generator made turns out to be in the memory already; 0 for as many as else.
    """

    source: Source
    task_id: str = ""
    arm: Arm = "plain"
    train: bool = True
    repeats: int = 1
    hint_repeats: int = 0
    known_repeats: int = 0


class Desk(NamedTuple):
    """What a schedule may look at.

    Attributes:
        memory: The records.
        rng: Its source of chance.
        draw: Draws a record by the sampler; returns its task id.
        can_mutate: Whether the generator mutates.
        exhausted: Whether the generator gives only tasks that the memory has (a small family), as far as can be seen.
    """

    memory: Memory
    rng: np.random.Generator
    draw: Callable[[], str]
    can_mutate: bool
    exhausted: bool = False


class Schedule(Protocol):
    """Plans the next orders."""

    def plan(self, desk: Desk) -> list[Order]:
        """Return at least one order."""


@dataclass(frozen=True, slots=True)
class AlwaysNew:
    """Domain randomisation: every ticket is a new task, and all are trained on."""

    def plan(self, desk: Desk) -> list[Order]:
        """Order one new task."""
        return [Order("new")]


@dataclass(frozen=True, slots=True)
class Replay:
    """New tasks and replays in a random mixture (PLR; robust PLR; ACCEL).

    Attributes:
        replay_probability: Share of replays once there are enough records.
        min_records: Records before anything is replayed; fewer if the generator has no more.
        train_new: Whether new tasks are trained on; robust PLR only scores them.
        mutate: Order a child of every replayed task, for scoring (ACCEL).
        plays_of_new: Tickets for each new task or child: a score of variance needs two. One, if it is known already.
    """

    replay_probability: float = 0.5
    min_records: int = 10
    train_new: bool = True
    mutate: bool = False
    plays_of_new: int = 1

    def __post_init__(self) -> None:
        """Check the ranges."""
        within("replay_probability", self.replay_probability, 0, 1)
        whole_number("min_records", self.min_records, least=1)
        whole_number("plays_of_new", self.plays_of_new, least=1)
        true_or_false("train_new", self.train_new)
        true_or_false("mutate", self.mutate)

    def plan(self, desk: Desk) -> list[Order]:
        """Order one new task, or one replay (and its child)."""
        filling = len(desk.memory) < self.min_records and not (desk.exhausted and len(desk.memory))
        if filling or desk.rng.random() >= self.replay_probability:
            return [Order("new", train=self.train_new, repeats=self.plays_of_new, known_repeats=1)]
        task_id = desk.draw()
        orders = [Order("replay", task_id)]
        if self.mutate and desk.can_mutate:
            orders.append(Order("mutate", task_id, train=False, repeats=self.plays_of_new, known_repeats=1))
        return orders


@dataclass(frozen=True, slots=True)
class FillThenReplay:
    """First every task of the generator, up to the memory's capacity; then replays by the sampler (bandits).

    Attributes:
        num_tasks: Records before the replays begin, fewer if the generator has no more; ``None`` for the memory's
            capacity.
    """

    num_tasks: int | None = None

    def __post_init__(self) -> None:
        """Check the range."""
        if self.num_tasks is not None:
            whole_number("num_tasks", self.num_tasks, least=1)

    def plan(self, desk: Desk) -> list[Order]:
        """Order a new task while some are missing, else a replay."""
        wanted = desk.memory.capacity if self.num_tasks is None else self.num_tasks
        filling = len(desk.memory) < wanted and not (desk.exhausted and len(desk.memory))
        return [Order("new")] if filling else [Order("replay", desk.draw())]


@dataclass(slots=True)
class ScreenThenTrain:
    """Sampling for learnability (SFL; Rutherford et al. 2024): screen many, train on the best, and again.

    Attributes:
        num_screened: New tasks of a screening.
        plays: Tickets for each of them, not trained on.
        train_asks: Tickets to train on until the next screening.
        replay_probability: Share of the screened among those (the paper's ρ); the others are new tasks.
    """

    num_screened: int = 100
    plays: int = 4
    train_asks: int = 2000
    replay_probability: float = 0.5
    _phase: int = 0

    def __post_init__(self) -> None:
        """Check the ranges."""
        for name in ("num_screened", "plays", "train_asks"):
            whole_number(name, getattr(self, name), least=1)
        within("replay_probability", self.replay_probability, 0, 1)

    def plan(self, desk: Desk) -> list[Order]:
        """Order a whole screening, or one play to train on."""
        if self._phase == 0:
            self._phase = self.train_asks
            for slot in [int(slot) for slot in desk.memory.slots()]:
                desk.memory.remove(slot)
            return [Order("new", train=False, repeats=self.plays) for _ in range(self.num_screened)]
        self._phase -= 1
        if desk.rng.random() >= self.replay_probability:
            return [Order("new")]
        return [Order("replay", desk.draw())]

    def state_dict(self) -> dict[str, Any]:
        """The place in the cycle, as JSON values."""
        return {"phase": self._phase}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Read what ``state_dict`` gave."""
        self._phase = int(state["phase"])


@dataclass(slots=True)
class Rounds:
    """SPADE's rollouts: a pool of tasks, regenerated every ``every`` rounds, each played with and without its hint.

    Both arms of a regeneration round play the same instance seeds (common random numbers). A generator that cannot
    give new tasks leaves the old pool in place.

    Attributes:
        num_tasks: Tasks in a pool.
        plays: Plays of each task in a round.
        hint_plays: Plays with the hint, in the regeneration round only; not trained on.
        every: Rounds from one regeneration to the next (K).
        round: Rounds begun so far.
    """

    num_tasks: int = 24
    plays: int = 16
    hint_plays: int = 16
    every: int = 4
    round: int = 0
    _active: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the ranges."""
        for name, least in (("num_tasks", 1), ("plays", 1), ("every", 1), ("hint_plays", 0), ("round", 0)):
            whole_number(name, getattr(self, name), least=least)

    def plan(self, desk: Desk) -> list[Order]:
        """Order a whole round: new tasks when it is time, else the active ones again."""
        regenerate = self.round % self.every == 0
        self.round += 1
        if regenerate:
            self._active = ()
            return [Order("new", repeats=self.plays, hint_repeats=self.hint_plays) for _ in range(self.num_tasks)]
        if not self._active:
            newest = sorted(desk.memory, key=lambda record: -record.born)[: self.num_tasks]
            self._active = tuple(record.task.id for record in reversed(newest))
        present = [task_id for task_id in self._active if task_id in desk.memory]
        return [Order("replay", task_id, repeats=self.plays) for task_id in present] or [Order("new")]

    def state_dict(self) -> dict[str, Any]:
        """The round and the active pool, as JSON values."""
        return {"round": self.round, "active": list(self._active)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Read what ``state_dict`` gave."""
        self.round, self._active = int(state["round"]), tuple(state["active"])
