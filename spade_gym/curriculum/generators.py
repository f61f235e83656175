"""Where new tasks come from: a list, a space of parameters, a pool of programs, a sliding difficulty."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from spade_gym.curriculum.finite import whole_number, within
from spade_gym.curriculum.task import Kind, Outcome, Task

if TYPE_CHECKING:
    from spade_gym.pool import Pool


class Generator(Protocol):
    """Makes tasks."""

    def generate(self, rng: np.random.Generator) -> Task | None:
        """Return a task, or ``None`` when no more can be made now."""


@runtime_checkable
class Mutator(Protocol):
    """Makes a task from another one."""

    def mutate(self, task: Task, rng: np.random.Generator) -> Task | None:
        """Return a changed task that names its parent and the mutation; ``None`` where it cannot be changed."""


@runtime_checkable
class Watcher(Protocol):
    """A generator (or sampler) that wants to see outcomes."""

    def observe(self, task: Task, outcome: Outcome) -> None:
        """See a valid outcome."""


@dataclass(slots=True)
class Listed:
    """Draws from given tasks: each once in a random order, then again in a new one.

    Attributes:
        tasks: At least one.
        repeat: Whether to go on after the last; otherwise ``generate`` then gives ``None``.
    """

    tasks: Sequence[Task]
    repeat: bool = True
    _left: list[int] = field(default_factory=list)
    _rounds: int = 0

    def __post_init__(self) -> None:
        """Refuse an empty list, and what is no task."""
        self.tasks = list(self.tasks) if isinstance(self.tasks, Iterable) else [self.tasks]
        wrong = [item for item in self.tasks if not isinstance(item, Task)]
        if wrong or not self.tasks:
            raise ValueError(f"tasks must be at least one Task, got {wrong[0] if wrong else self.tasks!r}")

    def generate(self, rng: np.random.Generator) -> Task | None:
        """Return the next task."""
        if not self._left:
            if self._rounds and not self.repeat:
                return None
            self._left = [int(index) for index in rng.permutation(len(self.tasks))]
            self._rounds += 1
        return self.tasks[self._left.pop()]

    def state_dict(self) -> dict[str, Any]:
        """The order of what is left, as JSON values."""
        return {"left": list(self._left), "rounds": self._rounds}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Read what ``state_dict`` gave."""
        self._left, self._rounds = list(state["left"]), int(state["rounds"])


def program_tasks(pool: Pool | Iterable[Any]) -> list[Task]:
    """Return one task for each program of a pool, with its skill, setting and hint."""
    return [
        Task(
            "program", {"program": program.digest}, skill=program.manifest.skill, hint=program.manifest.hint,
            setting=program.manifest.setting,
        )
        for program in pool
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Parameters:
    """Draws parameters of an environment family, each uniformly; mutates one at a time.

    Attributes:
        ranges: By name: a (low, high) pair of whole numbers (inclusive) or floats, or a list of choices.
        kind: How the parameters are applied (see ``Task``). The default, ``reset``, gives them as options to the
            environment's ``reset``, and most of Gymnasium's environments ignore options that they do not know: for what
            they keep as attributes (CartPole's ``gravity``) say ``kind="attribute"``, for arguments of
            ``gymnasium.make`` say ``kind="make"``.
        fixed: Values that stay.
        step_share: Largest step of a mutation, as a share of a range.
    """

    ranges: Mapping[str, Sequence[Any]]
    kind: Kind = "reset"
    fixed: Mapping[str, Any] = field(default_factory=dict)
    step_share: float = 0.2

    def __post_init__(self) -> None:
        """Refuse ranges that cannot be drawn from."""
        if not isinstance(self.ranges, Mapping) or not self.ranges:
            raise ValueError(f"ranges must be a mapping of at least one parameter to its range, got {self.ranges!r}")
        for name, span in self.ranges.items():
            if not _is_range(span):
                raise ValueError(
                    f"the range of {name!r} must be a (low, high) tuple of numbers or a list of choices, got {span!r}"
                )
        within("step_share", self.step_share, 0, 1)
        _ = Task(self.kind, self.fixed)  # refuses another kind

    def generate(self, rng: np.random.Generator) -> Task | None:
        """Draw every parameter."""
        return Task(self.kind, {**self.fixed, **{name: _draw(span, rng) for name, span in self.ranges.items()}})

    def mutate(self, task: Task, rng: np.random.Generator) -> Task | None:
        """Change one parameter: by a step for numbers, to another choice otherwise."""
        names = sorted(self.ranges)
        name = names[int(rng.integers(len(names)))]
        value = nearby(self.ranges[name], task.value[name], self.step_share, rng)
        changed = {**task.value, name: value}
        return Task(self.kind, changed, skill=task.skill, parent=task.id, mutation=f"{name} = {value!r}")


def _is_range(span: object) -> bool:
    if not isinstance(span, tuple):
        return isinstance(span, Sequence) and not isinstance(span, str) and len(span) > 0
    return (
        len(span) == 2
        and all(isinstance(end, int | float) and not isinstance(end, bool) for end in span)
        and span[0] <= span[1]
    )


def _draw(span: Sequence[Any], rng: np.random.Generator) -> Any:
    if isinstance(span, tuple):
        low, high = span
        if isinstance(low, int) and isinstance(high, int):
            return int(rng.integers(low, high + 1))
        return float(rng.uniform(low, high))
    return span[int(rng.integers(len(span)))]


def nearby(span: Sequence[Any], value: Any, share: float, rng: np.random.Generator) -> Any:
    """Return another value of a range: a step away in a (low, high) tuple of numbers, any other one of a list.

    Args:
        span: As in :class:`Parameters`.
        value: The present value, within the range.
        share: Largest step, as a share of the range.
        rng: Draws the step.
    """
    if not isinstance(span, tuple):
        others = [choice for choice in span if choice != value] or list(span)
        return others[int(rng.integers(len(others)))]
    low, high = span
    if isinstance(low, int) and isinstance(high, int):
        reach = max(1, round(share * (high - low)))
        step = int(rng.integers(1, reach + 1)) * (1 if rng.random() < 0.5 else -1)
        moved = min(high, max(low, value + step))
        return moved if moved != value else min(high, max(low, value - step))
    return float(np.clip(value + rng.uniform(-share, share) * (high - low), low, high))


@dataclass(slots=True)
class SlidingDifficulty:
    """A window of difficulties that slides up when its top is mastered (RLVE; method, section 8).

    Attributes:
        parameter: Name of the whole-number parameter.
        kind: How it is applied (see ``Task``).
        fixed: Other values.
        accuracy: Share of wins at the top (τ_acc) that moves the window.
        attempts: Plays at the top (τ_num) before that is judged.
        width: Most difficulties in the window.
        low: Lowest difficulty at present.
        high: Highest difficulty at present.
        limit: Highest difficulty that exists; ``None`` for no limit.
    """

    parameter: str = "difficulty"
    kind: Kind = "reset"
    fixed: Mapping[str, Any] = field(default_factory=dict)
    accuracy: float = 0.9
    attempts: int = 8
    width: int = 4
    low: int = 0
    high: int = 0
    limit: int | None = None
    _plays: int = 0
    _wins: int = 0

    def __post_init__(self) -> None:
        """Check the ranges."""
        within("accuracy", self.accuracy, 0, 1)
        for name in ("attempts", "width"):
            whole_number(name, getattr(self, name), least=1)
        whole_number("low", self.low, least=0)
        whole_number("high", self.high, least=self.low)
        if self.limit is not None:
            whole_number("limit", self.limit, least=self.high)
        _ = Task(self.kind, self.fixed)  # refuses another kind

    def generate(self, rng: np.random.Generator) -> Task | None:
        """Draw a difficulty of the window."""
        difficulty = int(rng.integers(self.low, self.high + 1))
        return Task(self.kind, {**self.fixed, self.parameter: difficulty})

    def observe(self, task: Task, outcome: Outcome) -> None:
        """Count a play at the top; others are ignored."""
        if task.value.get(self.parameter) != self.high:
            return
        self._plays += 1
        self._wins += outcome.won
        if self._plays >= self.attempts:
            if self._wins / self._plays >= self.accuracy and (self.limit is None or self.high < self.limit):
                self.high += 1
                self.low = max(self.low, self.high - self.width + 1)
            self._plays = self._wins = 0

    def state_dict(self) -> dict[str, Any]:
        """The window and the counts, as JSON values."""
        return {"low": self.low, "high": self.high, "plays": self._plays, "wins": self._wins}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Read what ``state_dict`` gave."""
        self.low, self.high, self._plays, self._wins = state["low"], state["high"], state["plays"], state["wins"]
