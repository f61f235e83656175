"""How text reaches a terminal: made harmless, wrapped, and laid out in columns.

Programs, replies and imported pools are written by strangers. Printed raw, their text could move the cursor,
rewrite what was printed before, set the window's title or reverse the reading order; :func:`visible` shows such
characters instead of sending them.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TextIO

#: Control, formatting (bidirectional and zero-width), surrogate and unassigned characters; line separators.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_MIN_WIDTH, _MAX_WIDTH = 20, 100


def visible(text: str, *, newlines: bool = True) -> str:
    r"""Replace every character that a terminal would obey rather than show by its escape, ``\x1b``.

    Args:
        text: Any text.
        newlines: Keep line breaks (and make ``\r\n`` one); otherwise they are shown as ``\n``.
    """
    if newlines:
        text = text.replace("\r\n", "\n").expandtabs(4)
    kept = "\n" if newlines else ""
    if text.isascii() and (text.replace("\n", "") if newlines else text).isprintable():
        return text
    return "".join(char if char in kept or not _is_hidden(char) else _escape(char) for char in text)


def width() -> int:
    """Return how many columns to use, between 20 and 100; 80 when the terminal does not say."""
    columns = shutil.get_terminal_size((80, 24)).columns
    return max(_MIN_WIDTH, min(columns, _MAX_WIDTH))


def has_colour(stream: TextIO) -> bool:
    """Tell whether a stream is a terminal that shows colours and whose user wants them (``NO_COLOR``)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


def bold(text: str, *, stream: TextIO | None = None) -> str:
    """Embolden text that is already harmless, where the stream shows it."""
    return f"\x1b[1m{text}\x1b[0m" if has_colour(stream or sys.stdout) else text


def wrap(text: str, *, columns: int, indent: str = "") -> str:
    """Break long lines at words, keep short ones as they are, and show what a terminal would obey.

    Args:
        text: Any text; its own line breaks and leading blanks stay (boards and tables depend on them).
        columns: Length of the longest line.
        indent: Put before every line.
    """
    room = max(columns - len(indent), 8)
    lines: list[str] = []
    for line in visible(text).split("\n"):
        lines.extend(_wrap_line(line.rstrip(), room))
    return "\n".join((indent + line).rstrip() for line in lines)


def table(rows: Iterable[Sequence[str]], *, header: Sequence[str], columns: int) -> str:
    """Lay rows out in columns; the last one is cut so that no line is longer than ``columns``."""
    cells = [[visible(cell, newlines=False) for cell in row] for row in (header, *rows)]
    widths = [max(display_width(row[index]) for row in cells) for index in range(len(header))]
    lines = []
    for row in cells:
        padded = [cell + " " * (size - display_width(cell)) for cell, size in zip(row, widths, strict=True)]
        lines.append(_cut("  ".join(padded).rstrip(), columns))
    return "\n".join(lines)


def display_width(text: str) -> int:
    """Return how many columns a line takes; wide (East Asian) characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(_char_width(char) for char in text)


def _char_width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _cut(line: str, columns: int) -> str:
    if display_width(line) <= columns:
        return line
    kept, used = [], 0
    for char in line:
        used += _char_width(char)
        if used > columns - 2:
            break
        kept.append(char)
    return "".join(kept).rstrip() + ".."


def _wrap_line(line: str, room: int) -> list[str]:
    if display_width(line) <= room:
        return [line]
    margin = line[: len(line) - len(line.lstrip())][: room // 2]
    return textwrap.wrap(line.lstrip(), room, initial_indent=margin, subsequent_indent=margin) or [""]


def _is_hidden(char: str) -> bool:
    return unicodedata.category(char) in _HIDDEN


def _escape(char: str) -> str:
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char)
    code = ord(char)
    return short or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}")
