"""Which parts of an announced command are free places for the player to fill?"""

from __future__ import annotations

import re

#: In brackets, an ellipsis, a dotted or dashed blank.
_MARKED = re.compile(r"<[^<>]{1,60}>|\[[A-Za-z][^\[\]]{0,60}\]|\.{3,}|…|_{2,}|\?{2,}")
#: Words in capitals: ``WORD``, ``NUMBER``, ``X``, ``ROW``.
_CAPITALS = re.compile(r"(?<![\w.])(?:[A-Z]{2,}\d?|[NXYKMIJ]\d?)(?:_[A-Z]+)*(?![\w.])")
_WORDS = frozenset(
    {
        *("number", "integer", "answer", "value", "price", "amount", "text", "word", "expression", "result", "digit"),
        *(
            "digits",
            "count",
            "n",
            "x",
            "y",
            "k",
            "i",
            "j",
            "name",
            "your_answer",
            "final_answer",
            "coordinates",
            "index",
        ),
    }
)
_PHRASES = re.compile(
    r"(?:your|the|final|a|an)\s+(?:\w+\s+)?(?:answer|number|value|move|guess|choice|word|text|action)s?"
)
#: Words that are commands as often as free places.
_AMBIGUOUS = frozenset({"guess", "move", "action", "command", "choice", "solution", "letter", "letters", "option"})


def placeholders(command: str) -> list[tuple[int, int]]:
    """Return the ``(start, end)`` of each free place in an announced command, in order.

    ``buy <price>``, ``run WORD``, ``add ...``, ``A | B`` and ``number`` have free places; ``answer 5 light``,
    ``say OK`` aside, has none. An empty command is one free place.
    """
    text = command.strip()
    if not text:
        return [(0, len(command))]
    if text.lower() in _WORDS or _PHRASES.fullmatch(text.lower()):
        return [(0, len(command))]
    spans = [match.span() for match in _MARKED.finditer(command)]
    inside = [match.span() for match in _CAPITALS.finditer(command) if not _within(match.span(), spans)]
    if inside and (len(text) > inside[0][1] - inside[0][0] or len(inside) > 1 or len(text) == 1 or text in _BLANKS):
        spans += inside
    elif re.fullmatch(r"\s*[A-Z]\s*(?:[|,/]\s*[A-Z]\s*)+", command):
        spans += [match.span() for match in re.finditer(r"[A-Z]", command)]
    return sorted(spans)


_BLANKS = frozenset(
    {"WORD", "NUMBER", "ANSWER", "TEXT", "VALUE", "MOVE", "GUESS", "LETTER", "NAME", "INTEGER", "ACTION"}
)


def is_placeholder(command: str, *, alone: bool, listed: bool) -> bool:
    """Whether an announced command is a template.

    Args:
        command: What stands in the box.
        alone: Whether it is the only one announced, or given as a form: then ambiguous words (``guess``) are
            free places.
        listed: Whether it stands in a complete list of commands: then they are commands.
    """
    if command.strip().lower() in _AMBIGUOUS:
        return alone and not listed
    return bool(placeholders(command))


def _within(span: tuple[int, int], spans: list[tuple[int, int]]) -> bool:
    return any(start <= span[0] and span[1] <= end for start, end in spans)
