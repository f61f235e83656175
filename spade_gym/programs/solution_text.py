r"""Which actions does the text of a ``solution()`` list?

Each line is one action (method, section 3). A tool call that is written over several lines, as models write them,
is one action all the same, and so is a ``\boxed{…}`` that holds line breaks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from spade_gym.programs.boxed import closing_braces

_CALL_TAG = re.compile(r"<(/?)tool_call>")
_BOX = re.compile(r"\\boxed\s{0,8}\{")
#: Lines of one action. After one that stays open longer, every line counts as an action; this bounds the time.
_MAX_LINES = 100


def action_lines(text: str) -> list[str]:
    """Return the actions of a solution in order; blank lines between them are no actions.

    Args:
        text: What ``solution()`` returned.
    """
    lines = text.splitlines()
    found: list[str] = []
    position = 0
    while position < len(lines):
        end = _end_of_action(lines, position)
        if end is None:
            return [*found, *(line for line in lines[position:] if line.strip())]
        action = "\n".join(lines[position:end])
        if action.strip():
            found.append(action)
        position = end
    return found


def _end_of_action(lines: Sequence[str], start: int) -> int | None:
    """Return the index after the last line of the action that begins at ``start``; ``None`` where it never ends."""
    if not _is_open(lines[start]):
        return start + 1
    for end in range(start + 2, min(len(lines), start + _MAX_LINES) + 1):
        if not _is_open("\n".join(lines[start:end])):
            return end
    return None


def _is_open(text: str) -> bool:
    """Whether a tool call or a box begins in the text and does not end in it."""
    tags = list(_CALL_TAG.finditer(text))
    if tags:
        return not tags[-1][1]
    boxes = list(_BOX.finditer(text))
    return bool(boxes) and boxes[-1].end() - 1 not in closing_braces(text)
