"""What a curriculum's server answers: who holds which ticket, and what becomes of it."""

from __future__ import annotations

import logging
from typing import Any

from spade_gym.curriculum import service_frames as frames
from spade_gym.curriculum.curriculum import EmptyCurriculum
from spade_gym.curriculum.task import Outcome

logger = logging.getLogger(__name__)


class Holder:
    """An actor, with the tickets that it asked for and has not told of.

    Attributes:
        due: Seeds whose outcomes are due, by ticket.
    """

    def __init__(self) -> None:
        self.due: dict[int, set[int]] = {}


class Desk:
    """Asks and tells for actors. Not thread-safe.

    Args:
        curriculum: A ``Curriculum`` or ``DurableCurriculum``.
    """

    def __init__(self, curriculum: Any) -> None:
        self.curriculum = curriculum
        self.num_asks = self.num_outcomes = 0
        self._holders: dict[int, Holder] = {}

    def hand_out(self, holder: Holder, name: str) -> bytes:
        """Ask for an actor; return the frame that answers it."""
        self.num_asks += 1
        try:
            ticket = self.curriculum.ask(name)
        except EmptyCurriculum as error:
            return frames.frame(frames.Failed("empty", str(error)))
        except Exception as error:  # a third party's generator or scorer; told to whom it concerns
            logger.exception("ask failed")
            return frames.frame(frames.Failed("failed", f"ask failed: {type(error).__name__}: {error}"))
        self._forget(ticket.id)
        holder.due[ticket.id] = set(ticket.seeds)
        self._holders[ticket.id] = holder
        try:
            return frames.frame(frames.pack_ticket(ticket))
        except (TypeError, OverflowError) as error:
            self._abort(holder, ticket.id)
            return frames.frame(frames.Failed("failed", f"the task {ticket.task.id} cannot be sent: {error}"))

    def take(self, request: frames.Tell) -> bytes:
        """Tell an actor's outcomes; return the frame that answers it."""
        receipts: list[str] = []
        errors: dict[int, str] = {}
        for position, fields in enumerate(request.outcomes):
            self.num_outcomes += 1
            try:
                outcome = Outcome(*fields)
                receipts.append(self.curriculum.tell(outcome))
            except ValueError as error:
                receipts.append("")
                errors[position] = str(error)
            except Exception as error:  # a third party's part, or the disk
                logger.exception("tell failed")
                return frames.frame(frames.Failed("failed", f"tell failed: {type(error).__name__}: {error}"))
            else:
                self.told(outcome)
        return frames.frame(frames.Received(receipts, errors))

    def told(self, outcome: Outcome) -> None:
        """Note that an outcome is no longer due."""
        holder = self._holders.get(outcome.ticket)
        if holder is not None:
            due = holder.due[outcome.ticket]
            due.discard(outcome.seed)
            if not due:
                self._forget(outcome.ticket)

    def give_up(self, holder: Holder) -> None:
        """Tell, for an actor that is gone, that its plays were aborted."""
        for ticket in list(holder.due):
            self._abort(holder, ticket)

    def _abort(self, holder: Holder, ticket: int) -> None:
        for seed in sorted(holder.due[ticket]):
            self.curriculum.tell(Outcome(ticket, seed, status="aborted"))
        self._forget(ticket)

    def _forget(self, ticket: int) -> None:
        holder = self._holders.pop(ticket, None)
        if holder is not None:
            del holder.due[ticket]
