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
#: Words that stand for something even where all is in capitals.
_BLANKS = frozenset(
    {
        *(
            "WORD",
            "NUMBER",
            "ANSWER",
            "TEXT",
            "VALUE",
            "GUESS",
            "LETTER",
            "NAME",
            "INTEGER",
            "ROW",
            "COL",
            "COLUMN",
            "BITS",
        ),
        *("INDEX", "PRICE", "AMOUNT", "DIGIT", "POSITION", "ID", "NUM", "INT", "EXPRESSION", "RESULT", "COORDINATES"),
    }
)
#: Two sides of a bar: ``A | B``.
_SIDES = re.compile(r"(?<![A-Za-z])([A-Z])\s{0,3}\|\s{0,3}([A-Z])(?![A-Za-z])")
#: Words that are commands as often as free places.
_AMBIGUOUS = frozenset({"guess", "move", "action", "command", "choice", "solution", "letter", "letters", "option"})


def placeholders(command: str, *, example: bool = False) -> list[tuple[int, int]]:
    """Return the ``(start, end)`` of each free place in an announced command, in order.

    ``buy <price>``, ``run WORD``, ``add ...``, ``A | B`` and ``number`` have free places; ``answer 5 light`` and
    ``TAKE KEY`` have none. An empty command is one free place.

    Args:
        command: What stands in the box.
        example: Whether it is given as an example: then words in capitals are not free places.
    """
    text = command.strip()
    if not text or text.lower() in _WORDS or _PHRASES.fullmatch(text.lower()):
        return [(0, len(command))]
    spans = [match.span() for match in _MARKED.finditer(command)]
    if not example:
        found = [match.span() for match in _CAPITALS.finditer(command)] if _capitals_are_places(text) else []
        found = [span for span in found if not _is_verb(command, span)]
        found += [match.span(group) for match in _SIDES.finditer(command) for group in (1, 2)]
        spans += [span for span in dict.fromkeys(found) if not _within(span, spans)]
    return sorted(spans)


def is_placeholder(command: str, *, example: bool, alone: bool, listed: bool) -> bool:
    """Whether an announced command is a template.

    Args:
        command: What stands in the box.
        example: Whether it is given as an example.
        alone: Whether it is the only one announced, or given as a form: then ambiguous words (``guess``) are
            free places.
        listed: Whether it stands in a complete list of commands: then they are commands.
    """
    if command.strip().lower() in _AMBIGUOUS:
        return alone and not listed
    return bool(placeholders(command, example=example))


def _is_verb(command: str, span: tuple[int, int]) -> bool:
    """Whether a word in capitals is the verb of a command (``GO cellar``), not a place (``NAME is lying``)."""
    word = command[slice(*span)]
    first = not command[: span[0]].strip() and bool(command[span[1] :].strip())
    return first and len(word) > 2 - (word in ("GO", "DO")) and word.isalpha() and word not in _BLANKS


def _capitals_are_places(text: str) -> bool:
    """Whether words in capitals stand out: from lower-case ones, or by what they say (``ROW COL``)."""
    if any(character.islower() for character in text):
        return True
    return all(word in _BLANKS or len(word) == 1 for word in re.findall(r"[A-Z]+", text))


def _within(span: tuple[int, int], spans: list[tuple[int, int]]) -> bool:
    return any(start <= span[0] and span[1] <= end for start, end in spans)
