"""What does an instance of a program show and hold? Looked at in the sandbox, for hints and screens."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from spade_gym.programs.boxed import box
from spade_gym.programs.program import Program
from spade_gym.programs.solution_text import action_lines
from spade_gym.sandbox.base import Isolation
from spade_gym.sandbox.session import Session

_MAX_SHOWN = 6_000
_MAX_STEPS = 200


class InstanceView(NamedTuple):
    """One instance.

    Attributes:
        seed: Its seed.
        first: The first observation.
        tools: Tool schemas in OpenAI form; empty for games.
        solution: The actions of ``solution()``, unboxed; ``None`` where the program has none.
        replies: Observations while the solution was played; empty where it was not.
    """

    seed: int
    first: str
    tools: list[dict[str, Any]]
    solution: tuple[str, ...] | None
    replies: tuple[str, ...]

    def shown(self) -> str:
        """The first observation and the tools, as text of bounded length."""
        text = self.first
        if self.tools:
            text += "\n\nTools:\n" + "\n".join(json.dumps(tool, ensure_ascii=False) for tool in self.tools)
        return text[:_MAX_SHOWN]


def view_instance(program: Program, seed: int, *, isolation: Isolation | str | None = None) -> InstanceView:
    """Look at one instance; see :func:`view_instances`."""
    return view_instances(program, [seed], isolation=isolation)[0]


def view_instances(
    program: Program, seeds: Sequence[int], *, isolation: Isolation | str | None = None, play: bool = False
) -> list[InstanceView]:
    """Reset a program with each seed and ask for its solution.

    Args:
        program: The program.
        seeds: Seeds of the instances.
        isolation: Demanded isolation; ``None`` for the secure default.
        play: Also play the solutions, and keep what the program replies.

    Raises:
        ProgramFault: The program failed.
        SandboxError: The sandbox cannot do its work.
    """
    with Session(program, isolation=isolation) as session:
        return [_view(session, seed, play) for seed in seeds]


def _view(session: Session, seed: int, play: bool) -> InstanceView:
    slot = session.open()
    try:
        first = session.reset(slot, seed).observation
        tools = session.tools(slot)
        text = session.solution(slot) if session.report.has_solution else None
        solution = None if text is None else tuple(action_lines(text))
        replies = _replies(session, slot, solution or (), bool(tools)) if play else ()
        return InstanceView(seed, first, tools, solution, replies)
    finally:
        session.close_slot(slot)


def _replies(session: Session, slot: int, solution: Sequence[str], is_tool_use: bool) -> tuple[str, ...]:
    found = []
    for line in solution[:_MAX_STEPS]:
        step = session.step(slot, line if is_tool_use else box(line))
        found.append(step.observation)
        if step.terminated or step.truncated:
            break
    return tuple(found)
