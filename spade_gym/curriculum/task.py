"""The words of a curriculum: a task, a ticket to play it, and the outcome of a play."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from spade_gym.types import Status

Kind = Literal["program", "make", "reset", "attribute"]
Arm = Literal["plain", "hint"]
STATUSES: tuple[Status, ...] = get_args(Status)
_BEYOND = 1 << 63
_TEXTS = ("skill", "parent", "mutation", "hint", "setting")


@dataclass(frozen=True)
class Task:
    """Something to play: a program, or a member of a family of Gymnasium environments (a UED "level").

    Attributes:
        kind: How ``value`` is applied: ``program`` (``{"program": key}``), ``make`` (arguments of
            ``gymnasium.make``), ``reset`` (options of ``reset``) or ``attribute`` (attributes to set).
        value: JSON values.
        skill: The skill it belongs to, or "".
        parent: Id of the task that it was made from, or "".
        mutation: How it differs from its parent, or "".
        hint: Privileged advice, or "".
        setting: Of a program (``single_turn``, ``multi_turn``, ``tool_use``), or "".
    """

    kind: Kind
    value: Mapping[str, Any]
    skill: str = ""
    parent: str = ""
    mutation: str = ""
    hint: str = ""
    setting: str = ""

    def __post_init__(self) -> None:
        """Refuse a kind that nobody can apply, and fields of other types."""
        if self.kind not in get_args(Kind):
            raise ValueError(f"a task's kind must be one of {', '.join(get_args(Kind))}, got {self.kind!r}")
        if not isinstance(self.value, Mapping):
            raise ValueError(f"a task's value must be a mapping of names to JSON values, got {self.value!r}")
        for name, text in zip(_TEXTS, (self.skill, self.parent, self.mutation, self.hint, self.setting), strict=True):
            if not isinstance(text, str):
                raise ValueError(f"a task's {name} must be a text, got {text!r}")

    @functools.cached_property
    def id(self) -> str:
        """Sixteen hexadecimal digits that equal tasks share; skill, setting, lineage and hint do not count.

        Raises:
            ValueError: The value is not JSON.
        """
        try:
            text = json.dumps([self.kind, dict(self.value)], sort_keys=True, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(f"a task's value must be JSON: {error}; got {dict(self.value)!r}") from error
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """Return the task as JSON values."""
        return {
            "kind": self.kind, "value": dict(self.value), "skill": self.skill, "parent": self.parent,
            "mutation": self.mutation, "hint": self.hint, "setting": self.setting,
        }  # fmt: skip

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Task:
        """Read what ``to_json`` gave."""
        return cls(**data)


@dataclass(frozen=True, slots=True)
class Ticket:
    """A request to play a task.

    Attributes:
        id: Number of the ticket; every outcome names it.
        task: What to play.
        seeds: Instance seeds: one for a single episode, several for a group; one outcome is due for each.
        arm: ``plain`` or ``hint``.
        train: Whether to learn from the plays; otherwise they are only for scoring.
        actor: Who asked.
    """

    id: int
    task: Task
    seeds: tuple[int, ...]
    arm: Arm = "plain"
    train: bool = True
    actor: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the ticket as JSON values."""
        return {
            "id": self.id, "task": self.task.to_json(), "seeds": list(self.seeds), "arm": self.arm,
            "train": self.train, "actor": self.actor,
        }  # fmt: skip

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Ticket:
        """Read what ``to_json`` gave; other keys do not matter."""
        task = Task.from_json(data["task"])
        return cls(data["id"], task, tuple(data["seeds"]), data["arm"], data["train"], data["actor"])


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one play of a ticket went.

    Attributes:
        ticket: The ticket's number.
        seed: Which of its seeds.
        total: Return, within the family's declared range.
        won: Whether the task was won.
        length: Steps.
        status: ``ok``; or ``aborted``, ``env_error``, ``timeout``: then the play counts for nothing.
        policy_version: Of the player, where the trainer counts one.
        value: What the trainer computed of the play (``value_scorers.py``), or ``None``.
    """

    ticket: int
    seed: int
    total: float = 0.0
    won: bool = False
    length: int = 0
    status: Status = "ok"
    policy_version: int = 0
    value: float | None = None

    def __post_init__(self) -> None:
        """Refuse what would poison every statistic after it."""
        if self.status not in STATUSES:
            raise ValueError(f"an outcome's status must be one of {', '.join(STATUSES)}, got {self.status!r}")
        for name, number in (("total", self.total), ("value", self.value)):
            if type(number) is not float and number is not None:
                _check_type(name, number, numbers.Real, "a number")
            if number is not None and not math.isfinite(number):
                raise ValueError(f"an outcome's {name} must be finite, got {number!r} for ticket {self.ticket}")
        if not type(self.ticket) is type(self.seed) is type(self.length) is type(self.policy_version) is int:
            for name in ("ticket", "seed", "length", "policy_version"):
                _check_type(name, getattr(self, name), numbers.Integral, "a whole number")
        whole = (self.ticket, self.seed, self.length, self.policy_version)
        if max(whole) >= _BEYOND or min(whole) < -_BEYOND:  # no database column and no array holds more
            raise ValueError(f"an outcome's ticket, seed, length and policy_version must fit into 64 bits, got {whole}")
        if self.total is None:
            raise ValueError(f"an outcome's total must be a number, got None for ticket {self.ticket}")


def _check_type(name: str, value: object, kind: type, allowed: str) -> None:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"an outcome's {name} must be {allowed}, got {value!r}")
