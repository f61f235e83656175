"""One reply of a designer, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from spade_gym.designer.diversity import Notice
from spade_gym.designer.request import DesignReply, DesignRequest
from spade_gym.designer.screen import Screening
from spade_gym.programs.program import Program
from spade_gym.programs.reply import program_from_reply
from spade_gym.validation.finding import Finding

#: ``no_reply``: the designer failed or was cut off; ``unread``: no program could be read; ``rejected``: by a check;
#: ``duplicate``: it repeats an earlier program; ``screened``: the screen refused it, or gave no verdict.
AttemptOutcome = Literal["accepted", "no_reply", "unread", "rejected", "duplicate", "screened"]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One reply of a designer, and what became of it.

    Attributes:
        reply: What was asked and written.
        outcome: Where its way ended.
        failures: Why it was not accepted; empty for accepted ones.
        warnings: Notes of the checks: repairs, adapters and the like.
        program: What was read from the reply, with the manifest as far as the checks completed it; ``None`` where
            nothing could be read.
        screening: What the screen said; ``None`` where it was not asked.
        notices: What is to be said about its likeness to other programs and to its document; accepted ones only, and
            those that were refused for it.
        seconds: Wall-clock time of the checks.
    """

    reply: DesignReply
    outcome: AttemptOutcome
    failures: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()
    program: Program | None = None
    screening: Screening | None = None
    notices: tuple[Notice, ...] = ()
    seconds: float = 0.0

    @property
    def request(self) -> DesignRequest:
        """What was asked."""
        return self.reply.request

    @property
    def accepted(self) -> bool:
        """Whether its program may be played."""
        return self.outcome == "accepted"

    @property
    def outage(self) -> bool:
        """Whether a model failed, the designer's or the screen's: it may be tried again, and is never kept."""
        return self.reply.outage or (self.screening is not None and self.screening.outage)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it was not accepted, one line each: the check's name and its message."""
        return tuple(f"{finding.check}: {' '.join(finding.message.split())}" for finding in self.failures)

    def to_json(self) -> dict[str, Any]:
        """What became of the reply as a JSON object, without the reply and the program themselves."""
        return {
            "key": self.request.key,
            "outcome": self.outcome,
            "digest": self.program.digest if self.program else "",
            "failures": [finding.to_json() for finding in self.failures],
            "warnings": [finding.to_json() for finding in self.warnings],
            "notices": [notice.to_json() for notice in self.notices],
            "screening": None if self.screening is None else [self.screening.status, self.screening.reason],
            "seconds": round(self.seconds, 3),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], reply: DesignReply, program: Program | None) -> Attempt:
        """Read what ``to_json`` gave; of the screening the verdict comes back, not the model's answers.

        Args:
            data: The JSON object.
            reply: What was asked and written.
            program: What was read from it, of the same digest; ``None`` where nothing was.
        """
        verdict = data["screening"]
        return cls(
            reply,
            data["outcome"],
            tuple(Finding(**row) for row in data["failures"]),
            tuple(Finding(**row, severity="warning") for row in data["warnings"]),
            program,
            None if verdict is None else Screening(data["digest"], *verdict),
            tuple(Notice(**row) for row in data["notices"]),
            data["seconds"],
        )


def read_program(reply: DesignReply) -> Program:
    """Return the program of a reply; its manifest says what was asked, where the reply comes from, and its hint.

    Raises:
        ReplyError: There is no usable program in the text.
        ManifestError: An origin or a hint is longer than a manifest may hold.
    """
    request, origin = reply.request, dict(reply.origin)
    origin.setdefault("kind", "designer")
    origin["request"] = request.key
    facts = {key: origin.pop(key, getattr(request, key)) for key in ("setting", "skill", "difficulty")}
    if reply.program is not None:
        return reply.program.with_manifest(**facts, origin=origin, hint=reply.program.manifest.hint or reply.hint)
    program = program_from_reply(reply.text, setting=facts["setting"], skill=facts["skill"], origin=origin)
    return program.with_manifest(difficulty=facts["difficulty"], hint=program.manifest.hint or reply.hint)
