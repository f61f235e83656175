"""Plays prepared lists of actions, many episodes side by side in one worker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from spade_gym.envs.episode import describe_fault, is_win
from spade_gym.errors import ProgramFault
from spade_gym.programs.boxed import box
from spade_gym.programs.solution_text import action_lines
from spade_gym.sandbox.session import Session


class Played(NamedTuple):
    """How an episode went.

    Attributes:
        total: Sum of its rewards.
        terminated: Whether the task ended (rather than the script, the turns, or the program).
        turns: Actions played.
        fault: What went wrong with the program; "" when nothing did.
    """

    total: float
    terminated: bool
    turns: int
    fault: str = ""

    @property
    def won(self) -> bool:
        """Whether it was won (method, section 6)."""
        return is_win(self.terminated, self.total)


def play_scripts(session: Session, scripts: Mapping[int, Sequence[str]]) -> dict[int, Played]:
    """Play one script per instance seed; an episode stops at its end, or when its script is used up.

    Args:
        session: A session of the program.
        scripts: Actions by seed.
    """
    slots = {seed: session.open() for seed in scripts}
    played = {seed: Played(0.0, False, 0) for seed in scripts}
    alive = list(scripts)
    for seed, first in zip(alive, session.reset_many([(slots[seed], seed) for seed in alive]), strict=True):
        if isinstance(first, ProgramFault):
            played[seed] = Played(0.0, False, 0, describe_fault(first))
    while alive := [seed for seed in alive if _goes_on(played[seed], scripts[seed])]:
        items = [(slots[seed], scripts[seed][played[seed].turns]) for seed in alive]
        for seed, result in zip(list(alive), session.step_many(items), strict=True):
            before = played[seed]
            if isinstance(result, ProgramFault):
                played[seed] = before._replace(fault=describe_fault(result))
                continue
            played[seed] = Played(before.total + result.reward, result.terminated, before.turns + 1)
            if result.truncated:
                alive.remove(seed)
    for slot in slots.values():
        session.close_slot(slot)
    return played


def _goes_on(play: Played, script: Sequence[str]) -> bool:
    return not play.terminated and not play.fault and play.turns < len(script)


def solution_scripts(session: Session, seeds: Iterable[int]) -> dict[int, list[str]]:
    """The program's own solution by seed, a line an action, boxed for games; empty lists where it has none.

    Raises:
        ProgramFault: ``reset`` or ``solution`` failed.
    """
    scripts = {}
    boxed = session.program.setting != "tool_use"
    slot = session.open()
    for seed in seeds:
        session.reset(slot, seed)
        lines = action_lines(session.solution(slot) or "")
        scripts[seed] = [box(line) for line in lines] if boxed else lines
    session.close_slot(slot)
    return scripts


def random_scripts(
    commands: Sequence[str], seeds: Iterable[int], *, turns: int, rng: np.random.Generator
) -> dict[int, list[str]]:
    """Scripts of ``turns`` commands drawn uniformly (boxed), by seed."""
    return {seed: [box(commands[i]) for i in rng.integers(len(commands), size=turns)] for seed in seeds}
