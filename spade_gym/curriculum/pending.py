"""Which tickets are out, and which of their outcomes are due?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from spade_gym.curriculum.task import Ticket


class Pending(NamedTuple):
    """A ticket that is out.

    Attributes:
        ticket: The ticket.
        due: Its seeds whose outcomes have not come.
        window: Scoring window in which it was handed out.
        probability: With which its record was drawn.
    """

    ticket: Ticket
    due: set[int]
    window: int
    probability: float


class PendingTickets:
    """Tickets that are out, oldest first; each outcome is taken once.

    Args:
        limit: Most tickets at a time; the oldest are given up beyond that (lost actors).
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._tickets: dict[int, Pending] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._tickets)

    def __contains__(self, ticket: object) -> bool:
        return ticket in self._tickets

    def issue(self, planned: Ticket, *, actor: str, window: int, probability: float) -> Ticket:
        """Number a planned ticket, and note that its outcomes are due."""
        ticket = Ticket(self._next, planned.task, planned.seeds, planned.arm, planned.train, actor)
        self._next += 1
        self._tickets[ticket.id] = Pending(ticket, set(ticket.seeds), window, probability)
        if len(self._tickets) > self.limit:
            del self._tickets[next(iter(self._tickets))]
        return ticket

    def take(self, ticket: int, seed: int) -> Pending | str:
        """Take the outcome of a seed; it is then no longer due.

        Returns:
            The ticket; or ``duplicate`` (taken before, or the ticket was given up) or ``unknown`` (there never was
            such a ticket, or it has no such seed).
        """
        pending = self._tickets.get(ticket)
        if pending is None:
            return "duplicate" if 0 <= ticket < self._next else "unknown"
        if seed not in pending.due:
            return "duplicate" if seed in pending.ticket.seeds else "unknown"
        pending.due.discard(seed)
        if not pending.due:
            del self._tickets[ticket]
        return pending

    def tickets(self) -> list[Ticket]:
        """Return the tickets with outcomes due, oldest first."""
        return [self._tickets[number].ticket for number in sorted(self._tickets)]

    def state_dict(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        return {
            "next": self._next,
            "tickets": [
                {**p.ticket.to_json(), "due": sorted(p.due), "window": p.window, "probability": p.probability}
                for p in self._tickets.values()
            ],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Read what ``state_dict`` gave."""
        self._next = state["next"]
        self._tickets = {item["id"]: _read(item) for item in state["tickets"]}


def _read(item: Mapping[str, Any]) -> Pending:
    return Pending(Ticket.from_json(item), set(item["due"]), item["window"], item["probability"])
