"""What the tests of the sandbox share: which levels work here, and small programs to put into them."""

from __future__ import annotations

import functools
import textwrap

import pytest

from spade_gym.programs.program import Manifest, Program
from spade_gym.sandbox.base import Isolation
from spade_gym.sandbox.doctor import obstacle
from spade_gym.sandbox.session import Session

LEVELS = ("L3", "L2", "L1", "L0")


@functools.cache
def why_not(level: str) -> str:
    return obstacle(Isolation[level])


def need(level: str) -> None:
    if why_not(level):
        pytest.skip(f"{level} is not available here: {why_not(level)}")


@functools.cache
def strongest() -> str:
    """The default level, or L1 where there is none, so that the rest of the tests can run there too."""
    return next(level for level in LEVELS if not why_not(level))


def program(source: str, class_name: str = "XEnv", **manifest: object) -> Program:
    facts = {"name": "X", "setting": "multi_turn", "class_name": class_name, **manifest}
    return Program(textwrap.dedent(source), Manifest(**facts))  # type: ignore[arg-type]


def stepping(body: str, before: str = "", reset: str = "return 'ready', {}") -> Program:
    """A program whose ``step(self, action)`` has the given body; ``self.n`` counts its calls."""
    return program(
        textwrap.dedent(before)
        + "\nclass XEnv:\n    def reset(self, seed=None):\n        self.n = 0\n        self.seed = seed\n"
        + textwrap.indent(textwrap.dedent(reset).strip(), " " * 8)
        + "\n    def step(self, action):\n        self.n += 1\n"
        + textwrap.indent(textwrap.dedent(body).strip(), " " * 8)
        + "\n"
    )


def session(source: str | Program, level: str | None = None, **options: object) -> Session:
    what = source if isinstance(source, Program) else program(source)
    return Session(what, isolation=level or strongest(), **options)  # type: ignore[arg-type]


def transcript(what: Program, seed: int, actions: list[str], level: str | None = None, **options: object) -> list[str]:
    with session(what, level, **options) as played:
        slot = played.open()
        return [played.reset(slot, seed).observation, *(played.step(slot, action).observation for action in actions)]
