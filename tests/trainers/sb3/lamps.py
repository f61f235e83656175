"""A small program for tests of training: the right command stands in the observation."""

from __future__ import annotations

from spade_gym import Manifest, Program

SOURCE = """
import random


class LampsEnv:
    def __init__(self, max_turns=4, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        self.rng = random.Random(seed)
        self.turn = self.right = 0
        return self.show(), {}

    def show(self):
        self.lit = self.rng.choice(("red", "green", "blue"))
        return f"The {self.lit} lamp is lit."

    def step(self, action):
        self.turn += 1
        if self.turn == 2 and FAULTS and "red" in action:
            raise RuntimeError("a lamp broke")
        if action == f"\\\\boxed{{press {self.lit}}}":
            self.right += 1
        if self.right == 3:
            return "All done.", 1 / 3, True, False, {}
        reward = 1 / 3 if action == f"\\\\boxed{{press {self.lit}}}" else 0.0
        info = {"commands": ["press red", "press green", "press blue"][: 1 + self.turn % 3]}
        return self.show(), reward, False, self.turn >= self.max_turns, info
"""


def lamps(*, faults: bool = False) -> Program:
    """Return the program: three right presses within four turns win; with ``faults``, red at turn 2 raises."""
    return Program(
        SOURCE.replace("FAULTS", str(faults)),
        Manifest(name="Lamps", setting="multi_turn", class_name="LampsEnv", commands=("press {red|green|blue}",)),
    )
