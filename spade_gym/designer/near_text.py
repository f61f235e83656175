"""How much of a program's texts was taken word by word from the document that it is grounded in?"""

from __future__ import annotations

import re
from typing import NamedTuple

from spade_gym.programs.literals import lex

#: Words of an n-gram.
GRAM = 5
_WORD = re.compile(r"\w+")


class Overlap(NamedTuple):
    """What a program's texts and a document have in common.

    Attributes:
        share: Of the n-grams of words in the program's texts that stand in the document too, in [0, 1]; ``None`` where
            the texts have too few words for one.
        longest: Words of the longest passage that stands in both; 0 when it is shorter than an n-gram.
    """

    share: float | None
    longest: int


def document_overlap(source: str, document: str, *, gram: int = GRAM) -> Overlap:
    """Compare the words of a program's strings and comments with a document's; case and punctuation do not matter.

    Args:
        source: The program's text.
        document: The document's text.
        gram: Words of an n-gram, at least 1.
    """
    known = set(_grams(_words(document), gram))
    grams = _grams(_words(texts_of(source)), gram)
    longest = run = 0
    for item in grams:
        run = run + 1 if item in known else 0
        longest = max(longest, run)
    share = sum(item in known for item in grams) / len(grams) if grams else None
    return Overlap(share, longest + gram - 1 if longest else 0)


def texts_of(source: str) -> str:
    """Return the strings and comments of a program, in order, a space between them."""
    lexed = lex(source)
    spans = sorted([(item.body_start, item.body_end) for item in lexed.literals] + list(lexed.comments))
    return " ".join(source[start:end] for start, end in spans)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _grams(words: list[str], gram: int) -> list[tuple[str, ...]]:
    return [tuple(words[i : i + gram]) for i in range(len(words) - gram + 1)]
