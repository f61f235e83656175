r"""Which text stands in the ``\boxed{…}`` of a message, and how is an action put into one?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_BOX = re.compile(r"\\boxed\s{0,8}\{")
_BRACE = re.compile(r"[{}]")
_THINK_TAG = re.compile(r"<(/?)think(?:ing)?>")


class Box(NamedTuple):
    r"""One balanced ``\boxed{…}``: ``text[start:end]`` is all of it.

    Attributes:
        start: Index of the backslash.
        end: Index after the closing brace.
        content: The text between the braces, as it stands.
    """

    start: int
    end: int
    content: str


def boxes(text: str) -> Iterator[Box]:
    r"""Yield the balanced ``\boxed{…}`` of a text from left to right; a box inside a box is not yielded.

    Takes time linear in the length of the text.
    """
    for start, inside, closer in _boxes(text, closing_braces(text)):
        yield Box(start, closer + 1, text[inside:closer])


def _boxes(text: str, closers: dict[int, int]) -> Iterator[tuple[int, int, int]]:
    """Yield where each box starts, where its content does, and where it is closed."""
    position = 0
    for match in _BOX.finditer(text):
        closer = closers.get(match.end() - 1)
        if match.start() < position or closer is None:
            continue
        position = closer + 1
        yield match.start(), match.end(), closer


def last_boxed(text: str) -> str | None:
    r"""Return the content of the last balanced ``\boxed{…}`` outside think blocks, stripped, or ``None``.

    An unclosed ``<think>`` reaches to the end; a ``</think>`` without its opening tag starts at the beginning.
    A box that holds nothing but a box counts as the inner one, and braces around all of the content do not count.
    """
    text = without_thoughts(text)
    closers = closing_braces(text)
    last: tuple[int, int] | None = None
    for _, inside, closer in _boxes(text, closers):
        last = inside, closer
    return None if last is None else _peeled(text, *last, closers)


def _peeled(text: str, start: int, end: int, closers: dict[int, int]) -> str:
    """Return ``text[start:end]``, which is balanced, without the boxes, and then the braces, that are around all of it.

    Takes time linear in the length of the text: braces are paired once, since all pairs stay what they are inside.
    """
    start, end = _stripped(text, start, end)
    while (match := _BOX.match(text, start, end)) and closers[match.end() - 1] == end - 1:
        start, end = _stripped(text, match.end(), end - 1)
    while closers.get(start) == end - 1:
        start, end = _stripped(text, start + 1, end - 1)
    return text[start:end]


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    """Return where ``text[start:end]`` starts and ends without the white space around it."""
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end


def box(text: str) -> str:
    r"""Return ``\boxed{text}``; a text that already holds a balanced box outside think blocks is returned as it is."""
    return text if last_boxed(text) is not None else f"\\boxed{{{text}}}"


def without_thoughts(text: str) -> str:
    """Return a text without its ``<think>…</think>`` blocks, closed or not."""
    if "think" not in text:
        return text
    kept: list[str] = []
    position, depth = 0, 0
    for tag in _THINK_TAG.finditer(text):
        if tag[1]:
            if depth == 0:
                kept.clear()
            depth = 0
            position = tag.end()
        else:
            if depth == 0:
                kept.append(text[position : tag.start()])
            depth = 1
    if depth == 0:
        kept.append(text[position:])
    return "".join(kept)


def closing_braces(text: str) -> dict[int, int]:
    """Return, for the index of each opening brace that has one, the index of its closing brace."""
    pairs: dict[int, int] = {}
    opened: list[int] = []
    for match in _BRACE.finditer(text):
        if match[0] == "{":
            opened.append(match.start())
        elif opened:
            pairs[opened.pop()] = match.start()
    return pairs
