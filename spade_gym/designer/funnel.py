"""How many replies reach each stage on the way to an accepted program, and where do the others stay?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from spade_gym.designer.attempt import Attempt
from spade_gym.programs.sanitise import stage_of

_LOADING = frozenset({"load", "smoke"})


@dataclass(frozen=True, slots=True)
class Funnel:
    """Counts of attempts; each count is a part of the one before it, except where said otherwise.

    Attributes:
        asked: Attempts, repair turns included.
        replied: With a text that was not cut off.
        parsed: From which a program could be read.
        executable: Whose program loads and answers a reset and three actions; duplicates are not counted.
        executable_raw: Of the executable ones, those without any repair of the text.
        executable_fence: Of the executable ones, those with no other repair than the removal of a stray fence.
        accepted: That passed everything.
        repaired: Of the parsed ones, those whose text was repaired.
        mended: Of the accepted ones, those that a designer mended in a repair turn.
        why_not: By the first check that failed: attempts that were not accepted.
        repairs: By name: repairs of texts.
    """

    asked: int = 0
    replied: int = 0
    parsed: int = 0
    executable: int = 0
    executable_raw: int = 0
    executable_fence: int = 0
    accepted: int = 0
    repaired: int = 0
    mended: int = 0
    why_not: dict[str, int] = field(default_factory=dict)
    repairs: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The counts as a JSON object."""
        return {name: getattr(self, name) for name in self.__slots__}


def funnel(attempts: Iterable[Attempt]) -> Funnel:
    """Count the stages that attempts reached. Source: method, section 4, point 1 (the shares of executable replies)."""
    counts: Counter[str] = Counter()
    why_not: Counter[str] = Counter()
    repairs: Counter[str] = Counter()
    for attempt in attempts:
        counts.update(_stages(attempt))
        if attempt.program is not None:
            repairs.update(attempt.program.manifest.repairs)
        if not attempt.accepted:
            why_not[attempt.failures[0].check if attempt.failures else attempt.outcome] += 1
    return Funnel(**counts, why_not=dict(why_not.most_common()), repairs=dict(repairs.most_common()))


def _stages(attempt: Attempt) -> list[str]:
    """The counts that an attempt adds to."""
    stages = ["asked"]
    if attempt.outcome != "no_reply":
        stages.append("replied")
    if attempt.program is None:
        return stages
    stages.append("parsed")
    repairs = attempt.program.manifest.repairs
    stage = stage_of(repairs)
    if stage != "raw":
        stages.append("repaired")
    if attempt.outcome != "duplicate" and not _LOADING & {finding.check for finding in attempt.failures}:
        stages.append("executable")
        stages += ["executable_raw"] if stage == "raw" else []
        stages += ["executable_fence"] if stage == "fence" else []
    if attempt.accepted:
        stages.append("accepted")
        stages += ["mended"] if attempt.request.repair is not None else []
    return stages
