"""Programs that several tests play, and nothing else."""

from __future__ import annotations

import pytest

from spade_gym.programs.program import Manifest, Program

COUNTER = '''
import random


class CounterEnv:
    """Says what it was told, counts turns, and draws from the global generator of random."""

    def __init__(self, max_turns=6, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        self.turn = 0
        self.goal = random.randint(0, 9)
        return f"seed {seed} draw {random.random():.6f}", {}

    def step(self, action):
        self.turn += 1
        if action == "raise":
            raise ValueError("told to")
        if action == "hang":
            while True:
                pass
        if action == "exit":
            import os
            os._exit(3)
        if action == "win":
            return "You win.", 1.0, True, False, {}
        if action == "lose":
            return "You lose.", 0.0, True, False, {}
        if action == "info":
            return "see info", 0.0, False, self.turn >= self.max_turns, {"commands": ["a", "b"], "n": self.turn}
        return f"{action} {self.turn} {random.random():.6f}", 0.125, False, self.turn >= self.max_turns, {}

    def solution(self):
        return "win"
'''


def make_program(source: str = COUNTER, class_name: str = "CounterEnv", **manifest: object) -> Program:
    """Return a program with a manifest good enough to be played."""
    facts = {"name": "Counter", "setting": "multi_turn", "class_name": class_name, "hint": "Say win.", **manifest}
    return Program(source, Manifest(**facts))  # type: ignore[arg-type]


@pytest.fixture
def counter() -> Program:
    return make_program()
