"""Where are the string literals and comments of a Python text that may not compile?

``tokenize`` stops at the first error and reads f-strings differently from Python 3.12 on; repairs need the
literals of broken text on every version. The rule here is the one before 3.12: an f-string ends at the first
unescaped quote of its kind.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_START = re.compile(
    r"""(?P<comment>\#[^\n]*+)|(?P<prefix>(?<!\w)(?:[rR][bBfF]?|[bBfF][rR]?|[uU])?)(?P<quote>\"\"\"|'''|"|')"""
)
_ENDS = {
    '"""': re.compile(r'(?:[^\\"]|\\.|"(?!""))*+"""', re.DOTALL),
    "'''": re.compile(r"(?:[^\\']|\\.|'(?!''))*+'''", re.DOTALL),
    '"': re.compile(r'(?:[^\\"\n]|\\.)*+"', re.DOTALL),
    "'": re.compile(r"(?:[^\\'\n]|\\.)*+'", re.DOTALL),
}
#: Quotation marks that open nothing (apostrophes in prose) before the rest is taken as code; bounds the time.
_MAX_FAILURES = 200


class Literal(NamedTuple):
    """One string literal: ``source[start:end]``.

    Attributes:
        start: Index of the prefix, or of the quote where there is none.
        end: Index after the closing quote.
        prefix: Lower-case letters before the quote: ``f``, ``r``, ``rf``, ``b``, ``""``, …
        quote: The delimiter, one or three quotation marks.
    """

    start: int
    end: int
    prefix: str
    quote: str

    @property
    def body_start(self) -> int:
        """Index of the first character between the quotes."""
        return self.start + len(self.prefix) + len(self.quote)

    @property
    def body_end(self) -> int:
        """Index after the last character between the quotes."""
        return self.end - len(self.quote)


class Lexed(NamedTuple):
    """The literals and comments of a text.

    Attributes:
        literals: In order of their position.
        comments: ``(start, end)`` of each comment.
        unclosed: Index at which a triple-quoted literal starts that never ends, or ``None``.
    """

    literals: tuple[Literal, ...]
    comments: tuple[tuple[int, int], ...]
    unclosed: int | None


def lex(source: str) -> Lexed:
    """Find the string literals and comments of any text, in linear time."""
    found: list[Literal] = []
    comments: list[tuple[int, int]] = []
    position = failures = 0
    while failures < _MAX_FAILURES and (start := _START.search(source, position)):
        quote = start["quote"]
        if quote is None:
            comments.append(start.span())
            position = start.end()
            continue
        end = _ENDS[quote].match(source, start.end())
        if end is None and len(quote) == 3:
            return Lexed(tuple(found), tuple(comments), start.start())
        if end is None:
            failures += 1
            position = start.end()
            continue
        position = end.end()
        found.append(Literal(start.start(), position, start["prefix"].lower(), quote))
    return Lexed(tuple(found), tuple(comments), None)


def code_spans(source: str) -> list[tuple[int, int]]:
    """Return the ``(start, end)`` of all text outside literals and comments, in order."""
    lexed = lex(source)
    holes = sorted([(item.start, item.end) for item in lexed.literals] + list(lexed.comments))
    spans, position = [], 0
    for start, end in holes:
        spans.append((position, start))
        position = end
    spans.append((position, len(source)))
    return spans


def line_of(source: str, index: int) -> int:
    """Return the 1-based line on which a character stands."""
    return source.count("\n", 0, index) + 1
