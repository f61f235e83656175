"""What ``spade-gym check`` prints: one block a file for people, one object a file for programs."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from spade_gym.cli.terminal import bold, visible, wrap

if TYPE_CHECKING:
    from spade_gym.validation.finding import Finding, Verdict

_VALUE_CHARS = 300
_SHOWN_ITEMS = 12
#: How evidence that was cut says so, and how long it was (``spade_gym.validation.finding.shorten``).
_CUT_TEXT = re.compile(r"(.*)… \((\d{1,12}) characters\)", re.DOTALL)
_CUT_LIST = re.compile(r"… \((\d{1,12}) items\)")

#: What helps against a failed check. Their order and meaning: ``spade_gym.validation.validate``.
REMEDIES = {
    "read": "Give a readable UTF-8 text file: a raw reply (.md, .txt), a program (.py), or a sound entry of a pool.",
    "extract": "The reply must hold one complete program in a ```python fence (was it cut off by the token limit?).",
    "syntax": "Mend the line that is named; none of the known repairs helped.",
    "contract": "Define one class named ...Env with reset(seed=None) and step(action).",
    "load": "The module and the constructor must run without arguments, quickly, and without raising.",
    "smoke": "reset must give (text, dict), and step (text, number, bool, bool, dict) for any text action.",
    "tool_schema": "Give every tool an OpenAI schema and a method tool_<name> that takes the same arguments.",
    "reset_gate": "Each criterion must give a bool on the state at reset, without raising, and must not be met there.",
    "solution": "solution() must return the actions, one a line, that win the instance that was just reset.",
    "determinism": "Draw all chance from random.Random(seed) made in reset; avoid time, hash() and the order of sets.",
    "shared_state": "Keep all state in self and make it anew in reset; no globals, no mutable defaults.",
    "termination": "End every play within max_turns: terminated on an outcome, truncated on the limit.",
    "access": "Remove every use of files, network, processes, threads and environment variables.",
    "input_call": "Take the player's text from step(action); never call input().",
    "trivial_policy": "Make winning depend on the instance, so that no fixed or senseless action wins.",
    "empty_answer": "Refuse an empty answer before comparing it with the right one.",
    "unwinnable": "Make sure that an announced command can win, and add solution() to show it.",
    "answer_leak": "Keep the answer, and any text that wins on other seeds too, out of the first observation.",
    "eval_injection": "Never pass the player's text to eval, exec or compile; parse it.",
    "availability": "Never raise on an action: answer what is not understood with an observation and reward 0.",
    "reward": "Keep every reward finite and the sum of a play's rewards within [0, 1]; pay nothing twice.",
    "internal": "Report this; the program was not judged.",
}
_CUT_OFF = "Ask for the reply again, with a larger token limit; what was cut off cannot be mended."
_DEFAULT_REMEDY = "Look at the evidence, change the program (or the request to the designer) and check again."
#: Notes that the lines ``repairs`` and ``adapters`` already tell.
_TOLD = ("repair", "adapter")


def remedy_for(check: str, message: str = "") -> str:
    """Return what to do about a failed check; its message tells a reply that was cut off from a faulty one."""
    if check in ("extract", "syntax", "contract") and message.startswith("The reply is truncated"):
        return _CUT_OFF
    return REMEDIES.get(check, _DEFAULT_REMEDY)


def describe(verdict: Verdict, *, columns: int) -> str:
    """Lay out one verdict as a block of lines, harmless to a terminal.

    Args:
        verdict: The outcome of one file.
        columns: Length of the longest line.
    """
    word = "accepted" if verdict.accepted else "REJECTED"
    lines = [f"{bold(word)}  {visible(verdict.file, newlines=False)}"]
    facts = [verdict.class_name, verdict.digest[:12], f"{verdict.seconds:.1f} s"]
    lines.append(wrap("  ".join(fact for fact in facts if fact), columns=columns, indent="    "))
    for label, names in (("repairs", verdict.repairs), ("adapters", verdict.adapters)):
        if names:
            lines.append(wrap(f"{label}: {', '.join(names)}", columns=columns, indent="    "))
    for finding in verdict.failures:
        lines.append(_finding(finding, "failed", columns))
    for finding in (item for item in verdict.warnings if item.check not in _TOLD):
        lines.append(_finding(finding, "note", columns))
    remedies = dict.fromkeys(remedy_for(finding.check, finding.message) for finding in verdict.failures)
    if remedies:
        lines.append("    what to do:")
        lines.extend(wrap(f"- {text}", columns=columns, indent="      ") for text in remedies)
    return "\n".join(lines)


def summarise(verdicts: Sequence[Verdict]) -> str:
    """Count the outcomes: ``3 files: 2 accepted, 1 rejected (1 determinism)``."""
    rejected = [verdict for verdict in verdicts if not verdict.accepted]
    files = "1 file" if len(verdicts) == 1 else f"{len(verdicts)} files"
    text = f"{files}: {len(verdicts) - len(rejected)} accepted, {len(rejected)} rejected"
    checks = Counter(verdict.failures[0].check for verdict in rejected if verdict.failures)
    if checks:
        text += f" ({', '.join(f'{count} {visible(check)}' for check, count in sorted(checks.items()))})"
    return text


def to_json(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as an object that JSON can hold, whatever its evidence is."""
    return {
        "file": verdict.file,
        "accepted": verdict.accepted,
        "digest": verdict.digest,
        "class_name": verdict.class_name,
        "repairs": list(verdict.repairs),
        "adapters": list(verdict.adapters),
        "failures": [_plain_finding(finding) for finding in verdict.failures],
        "warnings": [_plain_finding(finding) for finding in verdict.warnings],
        "seconds": round(verdict.seconds, 3),
    }


def dump(value: object) -> str:
    """Write JSON in ASCII, so that nothing in it can act on a terminal; no ``NaN``."""
    return json.dumps(value, indent=2, ensure_ascii=True, allow_nan=False)


def _plain_finding(finding: Finding) -> dict[str, Any]:
    return {"check": finding.check, "message": finding.message, "evidence": plain(finding.evidence)}


def plain(value: Any) -> Any:
    """Turn a value into what JSON can hold; non-finite numbers and foreign objects become texts."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return str(value)


def _finding(finding: Finding, label: str, columns: int) -> str:
    lines = [wrap(f"{label} {finding.check}: {finding.message}", columns=columns, indent="    ")]
    lines.extend(
        wrap(f"{key}: {_value(value)}", columns=columns, indent="        ")
        for key, value in finding.evidence.items()
        if value not in ("", [], (), {}, None)
    )
    return "\n".join(lines)


def _value(value: Any) -> str:
    """Show a piece of evidence on few lines: texts quoted, lists and long texts cut, each with its true length."""
    if isinstance(value, list | tuple):
        cut = _CUT_LIST.fullmatch(value[-1]) if value and isinstance(value[-1], str) else None
        kept, length = (value[:-1], int(cut[1])) if cut else (value, len(value))
        if length > _SHOWN_ITEMS:
            shown = ", ".join(_value(item) for item in kept[:_SHOWN_ITEMS])
            return f"{shown}, ... ({length} in all; --json shows more)"
        if not any(isinstance(item, list | tuple | Mapping) for item in value):
            return ", ".join(_value(item) for item in value)
    if isinstance(value, str):
        cut = _CUT_TEXT.fullmatch(value)
        text, length = (cut[1], int(cut[2])) if cut else (value, len(value))
        return _shortened(f'"{text}"', length, always=cut is not None)
    text = json.dumps(plain(value), ensure_ascii=False)
    return _shortened(text, len(text))


def _shortened(text: str, length: int, *, always: bool = False) -> str:
    """Cut a text for people; ``length`` is what it had before anything was cut or escaped."""
    text = visible(text, newlines=False)
    if len(text) <= _VALUE_CHARS and not always:
        return text
    return f"{text[:_VALUE_CHARS]}... ({length} characters)"
