"""What counts as a document of a corpus, and how long may it be?"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import msgspec

from spade_gym.designer.quoting import escaped, hidden_character
from spade_gym.designer.request import Document
from spade_gym.errors import SpadeError
from spade_gym.plain_file import shown

#: So many faults are named before a corpus is refused.
_MAX_NAMED = 5
_MAX_ID = 200
_WORD = re.compile(r"\S+")


class CorpusError(SpadeError):
    """A corpus that cannot be read, or that holds lines that are no documents; the message names file and line."""


class Record(msgspec.Struct, frozen=True):
    """A row of a corpus: ``text``, or ``orig_doc`` where that is missing or empty; other keys do not matter."""

    text: str | None = None
    orig_doc: str | None = None
    id: str | int | None = None
    title: str | None = None
    field: str | None = None

    def problem(self) -> str:
        """Say why this is no document; "" where it is one."""
        body = self.body
        if not body.strip():
            return "it has no text: 'text' (or 'orig_doc') must be a text that is not blank"
        try:
            body.encode("utf-8")
        except UnicodeEncodeError as error:
            return f"its text holds a lone surrogate at {error.start}"
        return ""

    @property
    def body(self) -> str:
        """Its text."""
        return self.text or self.orig_doc or ""

    def belongs_to(self, fields: Collection[str]) -> bool:
        """Whether it is of one of the fields; no fields mean all."""
        return not fields or self.field in fields

    def document(self, *, default_id: str, max_words: int) -> Document:
        """Return it as a request holds it; an id and a title hold no control characters and no surrogates."""
        name = default_id if self.id is None else str(self.id)[:_MAX_ID]
        title = "".join(char for char in " ".join((self.title or "").split()) if not hidden_character(char))
        return Document(escaped(name), cut_words(self.body, max_words), title)


def record_from_json(line: bytes) -> Record:
    """Read one line of a JSONL file.

    Raises:
        CorpusError: It is no JSON object, or holds no text.
    """
    try:
        record = msgspec.json.decode(line, type=Record)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CorpusError(f"{error}: {shown(line)}") from error
    return _sound(record)


def record_from_row(row: dict[str, Any]) -> Record:
    """Read one row of a table.

    Raises:
        CorpusError: A value is of a wrong type, or it holds no text.
    """
    try:
        record = msgspec.convert(row, type=Record)
    except msgspec.ValidationError as error:
        raise CorpusError(str(error)) from error
    return _sound(record)


def _sound(record: Record) -> Record:
    problem = record.problem()
    if problem:
        raise CorpusError(problem)
    return record


def cut_words(text: str, max_words: int) -> str:
    """Return the first words of a text with the spaces between them as they are.

    Raises:
        ValueError: ``max_words`` is below 1.
    """
    if max_words < 1:
        raise ValueError(f"max_words must be at least 1, got {max_words}")
    for number, word in enumerate(_WORD.finditer(text), start=1):
        if number == max_words:
            return text[: word.end()]
    return text


class Faults:
    """Collects what is wrong with a corpus, so that one reading names several bad lines."""

    def __init__(self) -> None:
        self._named: list[str] = []
        self._count = 0

    def add(self, where: str, error: CorpusError) -> None:
        """Note a fault."""
        self._count += 1
        if len(self._named) < _MAX_NAMED:
            self._named.append(f"{where}: {error}")

    def refuse(self, path: str) -> None:
        """Raise what was noted, if anything was.

        Raises:
            CorpusError: There were faults.
        """
        if self._count:
            more = f"\n… and {self._count - len(self._named)} more" if self._count > len(self._named) else ""
            raise CorpusError(f"{path!r} holds lines that are no documents:\n" + "\n".join(self._named) + more)
