"""What a session answers: results of playing, and what a program says about itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from spade_gym.errors import ProgramFault
from spade_gym.sandbox.wire import TERMINATED, TRUNCATED
from spade_gym.types import Transition


class Batch(NamedTuple):
    """Results of ``Session.begin``, by column; positions are those of its items.

    Attributes:
        observations: Texts.
        rewards: Finite numbers.
        flags: ``TERMINATED`` and ``TRUNCATED`` of ``wire.py``, added up.
        infos: Non-empty infos, by position.
        faults: By position, what went wrong there; the other columns then hold "", 0.0 and ``TRUNCATED``.
    """

    observations: list[str]
    rewards: list[float]
    flags: list[int]
    infos: dict[int, dict[str, Any]]
    faults: dict[int, ProgramFault]

    @classmethod
    def empty(cls) -> Batch:
        """No rows."""
        return cls([], [], [], {}, {})

    @classmethod
    def failed(cls, faults: list[ProgramFault]) -> Batch:
        """One row for each fault."""
        count = len(faults)
        return cls([""] * count, [0.0] * count, [TRUNCATED] * count, {}, dict(enumerate(faults)))

    def extend(self, other: Batch) -> None:
        """Append another batch's rows."""
        start = len(self.flags)
        self.observations.extend(other.observations)
        self.rewards.extend(other.rewards)
        self.flags.extend(other.flags)
        self.infos.update((start + position, info) for position, info in other.infos.items())
        self.faults.update((start + position, fault) for position, fault in other.faults.items())

    def replace(self, position: int, other: Batch) -> None:
        """Put the one row of another batch in the place of a row."""
        self.observations[position], self.rewards[position] = other.observations[0], other.rewards[0]
        self.flags[position] = other.flags[0]
        for mine, theirs in ((self.infos, other.infos), (self.faults, other.faults)):
            mine.pop(position, None)
            if 0 in theirs:
                mine[position] = theirs[0]  # type: ignore[assignment]

    def transitions(self) -> list[Transition | ProgramFault]:
        """The rows one by one."""
        return [
            self.faults.get(position)
            or Transition(text, reward, bool(flag & TERMINATED), bool(flag & TRUNCATED), self.infos.get(position, {}))
            for position, (text, reward, flag) in enumerate(
                zip(self.observations, self.rewards, self.flags, strict=True)
            )
        ]


class LoadReport(NamedTuple):
    """What a program says about itself once it runs.

    Attributes:
        class_name: Name of its class.
        adapters: Names of the adapters in use so far, static ones of the manifest first.
        has_solution: Whether it has a ``solution()``.
        max_turns: Its own turn limit, or ``None`` where it shows none.
        is_tool_use: Whether it derives from ``ToolUseBaseEnv``.
        base: ``plain``, ``gymnasium``, ``gem`` or ``tool_use``.
    """

    class_name: str
    adapters: tuple[str, ...]
    has_solution: bool
    max_turns: int | None
    is_tool_use: bool
    base: str


@dataclass(frozen=True, slots=True)
class Access:
    """An attempt of the program's own code (see ``audit.py``).

    Attributes:
        kind: ``file``, ``network``, ``process``, ``environment``, ``native``, ``thread``, ``eval`` or ``input``.
        detail: The event and what it was about.
        line: Line of the program.
        count: How often.
    """

    kind: str
    detail: str
    line: int
    count: int


class Criterion(NamedTuple):
    """The result of a tool-use criterion: its truth, and the name of the type that it returned."""

    holds: bool
    type_name: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A save point of an instance: its past, and where a copy of it lies while its worker lives.

    Attributes:
        seed: The instance's seed.
        actions: What was played since the reset.
        copy: (key of the worker, number) of the in-worker copy; ``None`` when only a replay can restore it. No two
            workers share a key, whatever session or process they belong to.
    """

    seed: int
    actions: tuple[str, ...]
    copy: tuple[int, int] | None = None
