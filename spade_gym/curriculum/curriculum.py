"""The curriculum: ``ask`` for a ticket, play it anywhere, ``tell`` how it went.

It is composed of a memory, a scorer, a sampler, a generator, gates and a schedule; the known methods are presets of
these (``presets.py``). It touches no environment and no trainer, and holds no clock: the same settings, seed and
order of calls give the same tickets.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any, Literal, cast

import numpy as np

from spade_gym.curriculum.finite import value_range, whole_number
from spade_gym.curriculum.gates import Gate
from spade_gym.curriculum.generators import Generator, Watcher
from spade_gym.curriculum.memory import Memory, Record, Scorer
from spade_gym.curriculum.part_methods import check_parts
from spade_gym.curriculum.pending import PendingTickets
from spade_gym.curriculum.replay_draw import Draw
from spade_gym.curriculum.run_settings import difference, settings_of
from spade_gym.curriculum.samplers import Exp3, Sampler, Uniform
from spade_gym.curriculum.schedules import Desk, Schedule
from spade_gym.curriculum.scorers import needs_values
from spade_gym.curriculum.task import Outcome, Task, Ticket
from spade_gym.curriculum.task_source import TaskSource
from spade_gym.curriculum.write_tickets import write_tickets

Receipt = Literal["counted", "excluded", "duplicate", "late", "unknown"]
_ATTEMPTS = 20


_STATE = (
    "settings", "memory", "parts", "rng", "num_asks", "repeats", "queue", "pending", "drawn", "receipts", "refusals"
)  # fmt: skip


class EmptyCurriculum(RuntimeError):
    """There is nothing to hand out: no record, and no generator that gives a task."""


class Curriculum:
    """Hands out tickets and learns from outcomes. Not thread-safe; ``service.py`` serves many processes.

    Args:
        memory: The records.
        scorer: Gives a task's score from its plays.
        schedule: The order of making, screening, replaying and mutating.
        sampler: Says which record to replay.
        generator: Makes tasks; ``None`` when all come by ``add``.
        gates: Judge tasks before they enter.
        seed: Seeds everything that is drawn.
        return_range: Declared range of returns; an outcome outside it is an error.
        group_size: Seeds of every ticket: one, or as many as a GRPO group has; plays are rounded up to whole groups.
        asks_per_window: Length of a scoring window, where the schedule has no rounds of its own.
        max_pending: Tickets waiting for outcomes; the oldest are given up beyond that (lost actors).

    Attributes:
        process_id: The process that made it. Copies in others (fork, pickle) learn nothing of one another, and
            environments refuse them.

    Raises:
        ValueError: A setting is out of range.
        TypeError: A part has not the method that it needs.
    """

    def __init__(
        self,
        *,
        memory: Memory,
        scorer: Scorer,
        schedule: Schedule,
        sampler: Sampler | None = None,
        generator: Generator | None = None,
        gates: Sequence[Gate] = (),
        seed: int = 0,
        return_range: tuple[float, float] = (0.0, 1.0),
        group_size: int = 1,
        asks_per_window: int = 1000,
        max_pending: int = 100_000,
    ) -> None:
        check_parts(memory=memory, scorer=scorer, schedule=schedule, sampler=sampler, generator=generator)
        for gate in gates:
            check_parts(gate=gate)
        whole_number("seed", seed, least=0)
        whole_number("group_size", group_size, least=1)
        whole_number("asks_per_window", asks_per_window, least=1)
        whole_number("max_pending", max_pending, least=1)
        self.memory = memory
        self.scorer = scorer
        self.schedule = schedule
        self.sampler = sampler or Uniform()
        self.generator = generator
        self.gates = tuple(gates)
        self.return_range = value_range("return_range", return_range)
        self.seed = seed
        self.group_size = group_size
        self.asks_per_window = asks_per_window
        self.max_pending = max_pending
        self.process_id = os.getpid()
        self.num_asks = 0
        self.receipts: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self._needs_values = needs_values(scorer)
        parts: tuple[object, ...] = (generator, sampler)
        self._watchers = [part for part in parts if isinstance(part, Watcher)]
        self._rng = np.random.default_rng(seed)
        self._source = TaskSource(memory, generator, self._rng, add=self.add, draw=self._drawn)
        self._queue: deque[Ticket] = deque()
        self._pending = PendingTickets(max_pending)
        self._draw = Draw()

    # ---- the two calls

    def ask(self, actor: str = "") -> Ticket:
        """Return the next ticket.

        Args:
            actor: Who asks; only written into the ticket.

        Raises:
            EmptyCurriculum: Nothing can be handed out.
        """
        self.num_asks += 1
        for _ in range(_ATTEMPTS):
            if not self._queue:
                self._refill()
            while self._queue:
                ticket = self._queue.popleft()
                slot = self.memory.slot_of(ticket.task.id)
                if slot is None and ticket.task.id:
                    continue  # evicted since it was planned
                if slot is not None:
                    self.memory.asked(slot, now=self.num_asks)
                return self._issue(ticket, actor)
        raise EmptyCurriculum(
            "the curriculum has nothing to hand out: its memory is empty, and its generator gave no new task in "
            f"{_ATTEMPTS} attempts (refusals so far: {dict(self.refusals) or 'none'}); give it a generator or add tasks"
        )

    def tell(self, outcome: Outcome) -> Receipt:
        """Learn how a play went.

        Returns:
            ``counted``; ``excluded`` (a fault or abort: it says nothing about the player); ``late`` (its task has left
            the memory); ``duplicate`` (told before, or its ticket was given up: see ``max_pending``); ``unknown``
            (there never was such a ticket, or it has no such seed). Only ``counted`` changes a record.

        Raises:
            ValueError: The outcome's total is outside the declared range, or it lacks the value that the scorer needs.
                It is then not taken, and may be told again.
        """
        low, high = self.return_range
        if outcome.status == "ok" and not low - 1e-6 <= outcome.total <= high + 1e-6:
            raise ValueError(
                f"outcome of ticket {outcome.ticket}: total {outcome.total!r} is outside the declared return_range "
                f"[{low:g}, {high:g}]; declare the family's range: Curriculum(..., return_range=(low, high))"
            )
        if self._needs_values and outcome.value is None and outcome.status == "ok":
            raise ValueError(
                f"outcome of ticket {outcome.ticket}: value is None, and the scorer {settings_of(self)['scorer']} "
                "needs a number: tell Outcome(value=…), as of CurriculumEnv(told_by='trainer') and "
                "outcome_of(info, value=…), or choose a scorer of returns"
            )
        receipt = self._settle(outcome)
        self.receipts[receipt] += 1
        return receipt

    def _settle(self, outcome: Outcome) -> Receipt:
        pending = self._pending.take(outcome.ticket, outcome.seed)
        if isinstance(pending, str):
            return cast(Receipt, pending)
        if outcome.status != "ok":
            return "excluded"
        for watcher in self._watchers:
            watcher.observe(pending.ticket.task, outcome)
        slot = self.memory.slot_of(pending.ticket.task.id)
        if slot is None:
            return "late"
        self.memory.played(slot, outcome, pending.ticket.arm, window=pending.window)
        if isinstance(self.sampler, Exp3):
            self._reward(self.sampler, slot, pending.probability)
        return "counted"

    def _reward(self, sampler: Exp3, slot: int, probability: float) -> None:
        returns = self.memory.record(slot).log.outcomes().returns
        progress = abs(float(returns[-1] - returns[-2])) if len(returns) > 1 else 0.0
        sampler.reward(self.memory, slot, progress, probability)

    # ---- filling

    def add(self, task: Task) -> str | None:
        """Put a task into the memory by hand.

        Returns:
            ``None``, or why it was refused.
        """
        reason = self._refusal(task)
        if reason is None:
            if self.memory.eviction == "lowest-score":
                self.memory.rescore(self.scorer)  # who leaves must not depend on who looked at scores before
            self.memory.add(task, now=self.num_asks)
        else:
            self.refusals[reason.split(" (")[0]] += 1
        return reason

    def _refusal(self, task: Task) -> str | None:
        if task.id in self.memory:
            return "exact duplicate"
        return next((reason for gate in self.gates if (reason := gate.refuse(task, self.memory)) is not None), None)

    def _refill(self) -> None:
        if self.generator is None and not len(self.memory):
            return
        source = self._source
        desk = Desk(self.memory, self._rng, self._drawn, source.can_mutate, source.exhausted)
        for order in self.schedule.plan(desk):
            added = self.memory.next_serial
            task = source.task_of(order)
            if task is None:
                continue
            if order.known_repeats and self.memory.next_serial == added:
                order = order._replace(repeats=order.known_repeats)
            self._queue.extend(write_tickets(order, task, self._rng, group_size=self.group_size))

    def _issue(self, planned: Ticket, actor: str) -> Ticket:
        window = getattr(self.schedule, "round", None)
        if window is None:
            window = self.num_asks // self.asks_per_window
        return self._pending.issue(planned, actor=actor, window=int(window), probability=self._draw.probability)

    def _drawn(self) -> str:
        task_id = self._draw.task_id(self.memory, self.scorer, self.sampler, now=self.num_asks, rng=self._rng)
        if task_id is None:
            raise EmptyCurriculum("no record could be drawn")
        return task_id

    # ---- looking

    @property
    def num_pending(self) -> int:
        """Tickets with outcomes due."""
        return len(self._pending)

    @property
    def num_queued(self) -> int:
        """Tickets planned and not handed out yet."""
        return len(self._queue)

    def is_pending(self, ticket: int) -> bool:
        """Whether an outcome of a ticket is due."""
        return ticket in self._pending

    def pending_tickets(self) -> list[Ticket]:
        """Tickets with outcomes due, oldest first."""
        return self._pending.tickets()

    def ranked(self) -> list[tuple[Record, float | None]]:
        """Records with their scores, best first; unknown scores (``None``) last."""
        self.memory.rescore(self.scorer)
        scores = self.memory.scores
        order = np.argsort(-np.nan_to_num(scores, nan=-np.inf), kind="stable")
        slots = self.memory.slots()
        return [(self.memory.record(int(slots[i])), None if np.isnan(scores[i]) else float(scores[i])) for i in order]

    # ---- saving

    def state_dict(self) -> dict[str, Any]:
        """Everything that changes, as JSON values: a curriculum that loads it hands out the same tickets."""
        return {
            "format": 1,
            "settings": settings_of(self),
            "memory": self.memory.state_dict(),
            "parts": {name: part.state_dict() for name, part in self._parts().items()},
            "rng": self._rng.bit_generator.state,
            "num_asks": self.num_asks,
            "repeats": self._source.repeats,
            "queue": [ticket.to_json() for ticket in self._queue],
            "pending": self._pending.state_dict(),
            "drawn": self._draw.state_dict(),
            "receipts": dict(self.receipts),
            "refusals": dict(self.refusals),
        }  # fmt: skip

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where ``state_dict`` was taken; the settings are not part of it and must be the same.

        Raises:
            ValueError: It is no state, one of a newer format, or of a curriculum with other settings; nothing has
                changed then.
        """
        if not isinstance(state, dict) or state.get("format") != 1:
            found = state.get("format") if isinstance(state, dict) else state
            raise ValueError(f"this state has format {found!r:.80}; this version reads format 1")
        missing = [name for name in _STATE if name not in state]
        if missing:
            raise ValueError(f"this is no whole state of a curriculum: it lacks {', '.join(missing)}")
        other = difference(state["settings"], settings_of(self))
        if other is not None:
            raise ValueError(f"this state is of a curriculum with {other}: make the curriculum as it was")
        self.memory.load_state_dict(state["memory"])
        for name, part in self._parts().items():
            part.load_state_dict(state["parts"][name])
        self._rng.bit_generator.state = state["rng"]
        self.num_asks, self._source.repeats = state["num_asks"], state["repeats"]
        self._queue = deque(Ticket.from_json(data) for data in state["queue"])
        self._pending.load_state_dict(state["pending"])
        self._draw.load_state_dict(state["drawn"])
        self.receipts, self.refusals = Counter(state["receipts"]), Counter(state["refusals"])

    def _parts(self) -> dict[str, Any]:
        parts = {"schedule": self.schedule, "sampler": self.sampler, "generator": self.generator}
        parts |= {f"gate {place}": gate for place, gate in enumerate(self.gates)}
        return {name: part for name, part in parts.items() if hasattr(part, "state_dict")}
