"""A tiny text environment without a program, for tests of wrappers."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from spade_gym.envs.spaces import Unicode

NAMES = ("north", "east", "south", "west")


class DoorsEnv(gym.Env[str, str]):
    """One of four doors is open; going through it wins. Closed doors can be ruled out, at most three times."""

    def __init__(self, commands: tuple[str, ...] = tuple(f"go {name}" for name in NAMES)) -> None:
        self.observation_space = Unicode(1000)
        self.action_space = Unicode(1000)
        self.commands = commands
        self.heard: list[str] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.open = NAMES[int(self.np_random.integers(4))]
        self.tries = 0
        self.closed: list[str] = []
        return f"The {self.open} door is open.", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.heard.append(action)
        self.tries += 1
        name = action.removeprefix("\\boxed{go ").removesuffix("}")
        won = name == self.open
        self.closed.append(name)
        left = [f"go {other}" for other in NAMES if other not in self.closed]
        return f"Tried {action}.", float(won), won, self.tries == 3 and not won, {"commands": left}
