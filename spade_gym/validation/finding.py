"""What a check found, and what all checks together say about a program."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from spade_gym.programs.program import Program

Severity = Literal["failure", "warning"]

_MAX_TEXT = 600
_MAX_ITEMS = 40


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check found, with the evidence from which anybody can see it again.

    Attributes:
        check: Name of the check, for example ``determinism``.
        message: What is wrong and, where it helps, what is allowed.
        evidence: Seeds, actions, rewards, observations and the like; JSON values only.
        severity: A ``failure`` rejects the program, a ``warning`` is a note on an accepted one.
    """

    check: str
    message: str
    evidence: dict[str, Any] = field(default_factory=dict)
    severity: Severity = "failure"

    def to_json(self) -> dict[str, Any]:
        """The finding as a JSON object with the keys ``check``, ``message`` and ``evidence``."""
        return {"check": self.check, "message": self.message, "evidence": self.evidence}


def failure(check: str, message: str, **evidence: Any) -> Finding:
    """Make a finding that rejects the program; the evidence is shortened to a readable size."""
    return Finding(check, message, {key: shorten(value) for key, value in evidence.items()})


def warning(check: str, message: str, **evidence: Any) -> Finding:
    """Make a finding that is only a note; the evidence is shortened to a readable size."""
    return Finding(check, message, {key: shorten(value) for key, value in evidence.items()}, "warning")


def shorten(value: Any) -> Any:
    """Cut long texts and lists, and say how much was left out."""
    if isinstance(value, str) and len(value) > _MAX_TEXT:
        return f"{value[:_MAX_TEXT]}… ({len(value)} characters)"
    if isinstance(value, list | tuple):
        kept = [shorten(item) for item in value[:_MAX_ITEMS]]
        return kept if len(value) <= _MAX_ITEMS else [*kept, f"… ({len(value)} items)"]
    if isinstance(value, dict):
        return {str(key): shorten(item) for key, item in value.items()}
    return value


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of all checks on one reply or program.

    Attributes:
        file: Where the text came from, or the program's name.
        accepted: No check failed.
        digest: sha256 of the repaired source; ``""`` where no program could be read.
        class_name: The environment class; ``""`` where no program could be read.
        repairs: Named repairs of the source.
        adapters: Named adapters under which the program runs.
        failures: Findings that reject it.
        warnings: Notes.
        seconds: Wall-clock time of the checks.
        program: The program with its manifest (adapters, turn limit) completed by what the checks saw.
    """

    file: str
    accepted: bool
    digest: str
    class_name: str
    repairs: tuple[str, ...]
    adapters: tuple[str, ...]
    failures: tuple[Finding, ...]
    warnings: tuple[Finding, ...]
    seconds: float
    program: Program | None = None

    def to_json(self) -> dict[str, Any]:
        """The verdict as a JSON object, without the program itself."""
        return {
            "file": self.file,
            "accepted": self.accepted,
            "digest": self.digest,
            "class_name": self.class_name,
            "repairs": list(self.repairs),
            "adapters": list(self.adapters),
            "failures": [finding.to_json() for finding in self.failures],
            "warnings": [finding.to_json() for finding in self.warnings],
            "seconds": round(self.seconds, 3),
        }
