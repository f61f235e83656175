"""Are the criteria of a tool-use program sound when the episode begins? Check ``reset_gate``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from spade_gym.errors import ProgramFault
from spade_gym.sandbox.session import Session
from spade_gym.validation.context import SEEDS, Context
from spade_gym.validation.finding import Finding, failure, warning

#: The paper's gate looks at these seeds only.
_PAPER_SEEDS = (0, 1, 2)


class CriterionAtReset(NamedTuple):
    """What one criterion says of the freshly reset state of one seed.

    Attributes:
        seed: Seed of the reset.
        number: Which criterion, from 0.
        value: Its truth; ``None`` where it raised.
        type_name: Type of its result; ``""`` where it raised.
        error: What it raised; ``""`` where it did not.
    """

    seed: int
    number: int
    value: bool | None
    type_name: str
    error: str


def check_reset_gate(context: Context) -> Iterator[Finding]:
    """No criterion raises on a fresh state, and none is already fulfilled on every seed.

    With ``reset_gate="all"`` (the paper), only a criterion that raises on every one of the seeds 0, 1, 2 rejects.
    Source: method, section 4, point 3.
    """
    if not context.is_tool_use:
        return
    seeds = SEEDS if context.reset_gate == "any" else _PAPER_SEEDS
    rows = [row for seed in seeds for row in criteria_at_reset(context.session(), seed)]
    if not rows:
        yield failure("reset_gate", "the program has no criteria, so nothing can be completed", seeds=list(seeds))
    for number in sorted({row.number for row in rows}):
        about = [row for row in rows if row.number == number]
        yield from _judge(number, about, len(seeds), context.reset_gate == "any")


def criteria_at_reset(session: Session, seed: int) -> Iterator[CriterionAtReset]:
    """What every criterion says of a freshly reset instance."""
    slot = session.open()
    try:
        session.reset(slot, seed)
        for index in range(session.num_criteria(slot)):
            try:
                result = session.criterion(slot, index)
                yield CriterionAtReset(seed, index, result.holds, result.type_name, "")
            except ProgramFault as fault:
                yield CriterionAtReset(seed, index, None, "", str(fault))
    finally:
        session.close_slot(slot)


def _judge(index: int, rows: list[CriterionAtReset], num_seeds: int, strict: bool) -> Iterator[Finding]:
    raised = [row for row in rows if row.error]
    if raised and (strict or len(raised) == num_seeds):
        yield failure(
            "reset_gate",
            f"criterion {index + 1} raises on the freshly reset state of seed {raised[0].seed}: {raised[0].error}. "
            "A criterion must be false, not raise, until its instruction is carried out",
            criterion=index, seeds=[row.seed for row in raised], error=raised[0].error,
        )  # fmt: skip
    if strict and len(rows) == num_seeds and all(row.value for row in rows):
        yield failure(
            "reset_gate",
            f"criterion {index + 1} is already true on the freshly reset state of every seed: its instruction asks "
            "for nothing",
            criterion=index, seeds=[row.seed for row in rows],
        )  # fmt: skip
    types = sorted({row.type_name for row in rows if row.type_name} - {"bool", "bool_"})
    if types:
        message = f"criterion {index + 1} returns {', '.join(types)} where a bool is expected; its truth is used"
        yield warning("reset_gate", message, criterion=index, types=types)
