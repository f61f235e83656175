r"""Where does an observation announce commands, and which are given as a list, a range or an example?"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from spade_gym.programs.boxed import Box, boxes

#: Between the first and the last command of a range.
ELLIPSIS = re.compile(
    r"[\s,;]*+(?:\.{2,}|…|\bto\b|\bthrough\b|\bup to\b|–|—|(?<=\d)-(?=\d)|\s-\s)[\s,;]*+(?:(?:and|or)\b)?\s*"
)
_BULLET = re.compile(r"\s{0,8}(?:[-*•·]|\d{1,3}[.)])\s+")
_SEPARATORS = re.compile(r"\b(?:and|or|to|through)\b|[\s,;:/|*•·.…–—()\[\]'\"`-]+")
_AFTER = r"[\s,:;(\"'`]*(?:this|is|it|so)?[\s,:;(\"'`]*$"
_EXAMPLE = re.compile(
    r"(?:for example|for instance|e\.g\.|\beg\b|such as|\blike|\bas in|\bexample)" + _AFTER, re.IGNORECASE
)
_FORM = re.compile(r"\b(?:form|format)(?: of)?" + _AFTER, re.IGNORECASE)
_HEADING = re.compile(
    r"(?:^|(?<=[\n.!?]))[^\S\n]*(?:(?:available|valid|legal|possible|allowed|your|the)\s+)*"
    r"(?:commands?|actions?|moves?|options?|choices?)(?:\s+are|\s+available)?\s*:",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"(?<!\w)(?:'([^'\n]{1,60})'|\"([^\"\n]{1,60})\"|`([^`\n]{1,60})`|“([^”\n]{1,60})”)(?!\w)")
_SAYING = re.compile(
    r"\b(?:say|type|answer|reply|respond|enter|write|use|choose|command|action|move)\w*\b", re.IGNORECASE
)
#: How far an example marker may stand before its box, in characters.
_NEAR = 40


Role = Literal["plain", "example", "form"]


class Mention(NamedTuple):
    """One box of an observation.

    Attributes:
        content: What stands in it, stripped.
        start: Index of its first character in the text.
        end: Index after its last character.
        continued: Whether an ellipsis leads from it to the next box.
        role: ``example`` ("such as", "like"), ``form`` ("in the form") or ``plain``.
    """

    content: str
    start: int
    end: int
    continued: bool
    role: Role


def mentions(text: str) -> list[Mention]:
    """Return the boxes of a text in order, with what the words around them say."""
    found = list(boxes(text))
    return [_mention(text, found, index) for index in range(len(found))]


def complete_lists(text: str, found: Sequence[Mention]) -> list[bool]:
    """Return for each mention whether it stands in a line that lists commands and nothing else.

    Such a line starts with ``Commands:``, ``Actions:`` or the like and holds only boxes and separators.
    """
    listed = [False] * len(found)
    headings = [match.end() for match in _HEADING.finditer(text)]
    place = 0
    for start in headings:
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        while place < len(found) and found[place].start < start:
            place += 1
        last = place
        while last < len(found) and found[last].end <= end:
            last += 1
        edges = [start, *(edge for item in found[place:last] for edge in (item.start, item.end)), end]
        gaps = [text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)]
        if last > place and not any(_SEPARATORS.sub("", gap) for gap in gaps):
            listed[place:last] = [True] * (last - place)
        place = last
    return listed


def listed_words(text: str) -> tuple[list[str], bool]:
    """Return the commands of a text without boxes, and whether they are evidently all.

    ``Commands: a, b, c`` and ``Actions: north, south or wait`` are complete lists; otherwise quoted words in
    a sentence with a verb of saying (``Type 'left' or 'right'``) are taken, as examples.
    """
    for heading in _HEADING.finditer(text):
        words = _words_after(text[heading.end() :][:2000])
        if words and all(len(word) <= 40 and word.count(" ") <= 4 for word in words):
            return list(dict.fromkeys(words)), _EXAMPLE.search(text[heading.start() : heading.end() + 200]) is None
    quoted: dict[str, None] = {}
    for sentence in re.split(r"(?<=[.!?])\s+|\n", text):
        if _SAYING.search(sentence):
            quoted.update(dict.fromkeys(next(filter(None, match.groups())) for match in _QUOTED.finditer(sentence)))
    return list(quoted), False


def _words_after(text: str) -> list[str]:
    """Return the words of a list that follows a heading: on its line, or below it with bullets."""
    first, _, below = text.partition("\n")
    if first.strip():
        items = re.split(r"[,;|]|\bor\b|\band\b", re.sub(r"\([^()]*\)", "", first).strip().rstrip("."))
    else:
        bullets = itertools.takewhile(lambda line: _BULLET.match(line), below.split("\n"))
        items = [re.split(r"\s[-–—(]|:\s", _BULLET.sub("", line, count=1), maxsplit=1)[0] for line in bullets]
    words = [item.strip(" \t'\"`“”‘’") for item in items]
    return [word for word in words if word]


def _mention(text: str, found: Sequence[Box], index: int) -> Mention:
    """Read what the words before and after one box say about it."""
    box = found[index]
    previous = found[index - 1].end if index else 0
    before = text[max(previous, box.start - _NEAR) : box.start]
    following = found[index + 1].start if index + 1 < len(found) else box.end
    gap = text[box.end : following]
    continued = 0 < len(gap) <= _NEAR and ELLIPSIS.fullmatch(gap) is not None
    role: Role = "example" if _EXAMPLE.search(before) else "form" if _FORM.search(before) else "plain"
    return Mention(box.content.strip(), box.start, box.end, continued, role)
