"""Tiny environment families for tests; importable in worker processes."""

from __future__ import annotations

import os
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from spade_gym.curriculum import preset
from spade_gym.curriculum.curriculum import Curriculum
from spade_gym.curriculum.generators import Listed
from spade_gym.curriculum.task import Outcome, Task, Ticket


class Walk(gymnasium.Env[Any, Any]):
    """Ends after ``length`` steps and pays 1/length for every step with action 1; action 2 raises, 3 kills."""

    observation_space = Box(0.0, 1e12, (2,), np.float64)
    action_space = Discrete(5)

    def __init__(self, length: int = 3, size: int = 2) -> None:
        self.length = length
        self.observation_space = Box(0.0, 1e12, (size,), np.float64)
        self.closed = False

    def _observe(self) -> Any:
        return np.full(self.observation_space.shape, self.turn + self.instance * 10.0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.length = (options or {}).get("length", self.length)
        if self.length == 13:
            raise RuntimeError("no walk is 13 long")
        self.turn, self.instance = 0, seed or 0
        return self._observe(), {"length": self.length}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if action == 2:
            raise RuntimeError("stumbled")
        if action == 3:
            os._exit(7)
        self.turn += 1
        reward = float("nan") if action == 4 else float(action == 1) / self.length
        return self._observe(), reward, self.turn >= self.length, False, {}

    def close(self) -> None:
        self.closed = True


def walk(**arguments: Any) -> Walk:
    return Walk(**arguments)


class Fixed:
    """Hands out given tickets, and keeps what it is told."""

    return_range = (0.0, 1.0)

    def __init__(self, *tasks: Task, seeds: tuple[int, ...] = (5,), arm: Any = "plain") -> None:
        self.tickets = [Ticket(n, task, seeds, arm, n % 2 == 0) for n, task in enumerate(tasks)]
        self.asked = 0
        self.told: list[Outcome] = []

    def ask(self, actor: str = "") -> Ticket:
        self.asked += 1
        return self.tickets[(self.asked - 1) % len(self.tickets)]

    def tell(self, outcome: Outcome) -> Any:
        self.told.append(outcome)
        return "counted"


def lengths(*values: int, kind: Any = "make") -> list[Task]:
    return [Task(kind, {"length": value}) for value in values]


def walks(*values: int, kind: Any = "make") -> Curriculum:
    return preset.make("plr", generator=Listed(lengths(*values, kind=kind)))
