"""One turn of an episode as text for a terminal."""

from __future__ import annotations

import unicodedata

_KEPT = "\n\t"


def printable(text: str) -> str:
    """Make control and direction characters visible, so that a program's text cannot command a terminal."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if char in _KEPT or not _commands(char) else f"\\x{ord(char):02x}" for char in text)


def _commands(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def frame(name: str, turns: int, turn_limit: int, total: float, action: str | None, observation: str) -> str:
    """Lay out a turn: a headline, the last action, the observation."""
    lines = [f"── {name} · turn {turns} of at most {turn_limit} · return {total:g} ──"]
    if action is not None:
        lines.append(f"> {printable(action)}")
    lines.append(printable(observation))
    return "\n".join(lines)
