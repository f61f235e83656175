"""What is written down of a run, in order: what was asked, told and added, and now and then the whole state."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from spade_gym.curriculum.task import Outcome, Task, Ticket


class Asked(NamedTuple):
    """An ``ask`` in the journal.

    Attributes:
        n: Place in the journal.
        actor: Who asked.
        ticket: What was handed out; ``None`` when there was nothing.
    """

    n: int
    actor: str
    ticket: Ticket | None


class Told(NamedTuple):
    """A ``tell`` in the journal.

    Attributes:
        n: Place in the journal.
        outcome: What was told.
        receipt: What the curriculum answered.
    """

    n: int
    outcome: Outcome
    receipt: str


class Added(NamedTuple):
    """An ``add`` in the journal.

    Attributes:
        n: Place in the journal.
        task: What was put in.
        reason: Why it was refused, or ``None``.
    """

    n: int
    task: Task
    reason: str | None


class Snapshot(NamedTuple):
    """A curriculum's whole state at one place of the journal.

    Attributes:
        n: Everything up to this place is in the state.
        settings: The curriculum's settings, to be compared.
        state: Its ``state_dict``.
    """

    n: int
    settings: dict[str, Any]
    state: dict[str, Any]


Entry = Asked | Told | Added


def task_row(task: Task) -> tuple[Any, ...]:
    """Return the row of the table ``tasks``."""
    return (
        task.id, task.kind, json.dumps(dict(task.value)), task.skill, task.parent, task.mutation, task.hint,
        task.setting,
    )  # fmt: skip


def ticket_row(entry: Asked) -> tuple[Any, ...]:
    """Return the row of the table ``tickets``."""
    ticket = entry.ticket
    if ticket is None:
        return (entry.n, None, None, None, None, None, entry.actor)
    return (
        entry.n, ticket.id, ticket.task.id, str(list(ticket.seeds)), ticket.arm, ticket.train, entry.actor
    )  # fmt: skip


def outcome_row(entry: Told) -> tuple[Any, ...]:
    """Return the row of the table ``outcomes``; numbers of NumPy become plain ones."""
    outcome = entry.outcome
    return (
        entry.n, int(outcome.ticket), int(outcome.seed), float(outcome.total), bool(outcome.won), int(outcome.length),
        outcome.status, int(outcome.policy_version), None if outcome.value is None else float(outcome.value),
        entry.receipt,
    )  # fmt: skip


def told(row: Sequence[Any]) -> Told:
    """Read a row of the table ``outcomes``."""
    n, ticket, seed, total, won, length, status, version, value, receipt = row
    return Told(n, Outcome(ticket, seed, total, bool(won), length, status, version, value), receipt)
