"""A corpus in a JSONL file of any size: one reading when it is opened, random access afterwards, constant memory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO

from spade_gym.designer.corpus_records import CorpusError, Faults, Record, record_from_json
from spade_gym.designer.quoting import escaped
from spade_gym.designer.request import Document
from spade_gym.errors import PoolError
from spade_gym.plain_file import open_plain

#: Longest line, in bytes.
MAX_LINE_BYTES = 16 << 20
#: Most places that are remembered; 8 bytes each, as Python objects about 40.
MAX_PLACES = 1 << 16


class _Places:
    """Byte offsets of every ``stride``-th document; the stride doubles when there are too many."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._offsets: list[int] = []
        self._stride = 1
        self.count = 0

    def add(self, offset: int) -> None:
        if self.count % self._stride == 0:
            self._offsets.append(offset)
            if len(self._offsets) > self._limit:
                del self._offsets[1::2]
                self._stride *= 2
        self.count += 1

    def nearest(self, index: int) -> tuple[int, int]:
        """Offset of the last remembered document up to ``index``, and how many documents are to be skipped from it."""
        return self._offsets[index // self._stride], index % self._stride


class JsonlCorpus:
    """Documents of a JSONL file, one object a line, with ``text`` or ``orig_doc`` and perhaps ``id`` and ``title``.

    Opening reads the whole file once: every line is checked, and the places of at most 65,536 documents are
    remembered, evenly spaced. A document is then read from the nearest place before it.

    Args:
        path: The file.
        fields: Take only the documents whose ``field`` is one of these; all of them when empty.
        max_places: Most places remembered.

    Attributes:
        name: The file's name without its ending.
        digest: sha256 of the file.

    Raises:
        CorpusError: It cannot be read, has a line that is no document (file and lines are named), or no document.
    """

    def __init__(self, path: Path | str, *, fields: Collection[str] = (), max_places: int = MAX_PLACES) -> None:
        self._path = Path(path)
        self._fields = frozenset(fields)
        self.name = escaped(self._path.stem)
        self._places = _Places(max_places)
        hasher, faults = hashlib.sha256(), Faults()
        with _opened(self._path) as file:
            self._state = _state(file)
            for number, (offset, line) in enumerate(_lines(file, self._path), start=1):
                hasher.update(line)
                if not line.strip():
                    continue
                try:
                    record = record_from_json(line)
                except CorpusError as error:
                    faults.add(f"line {number}", error)
                    continue
                if record.belongs_to(self._fields):
                    self._places.add(offset)
        faults.refuse(str(self._path))
        self.digest = hasher.hexdigest()
        if not len(self):
            wanted = f" of the fields {', '.join(sorted(self._fields))}" if self._fields else ""
            raise CorpusError(f"{str(self._path)!r} holds no document{wanted}")

    def __len__(self) -> int:
        return self._places.count

    def document(self, index: int, *, max_words: int) -> Document:
        """Return a document by its number from 0, cut to its first words.

        Raises:
            CorpusError: The file was changed since it was opened.
            IndexError: There is no such document.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"the corpus {self.name} has documents 0 to {len(self) - 1}, got {index}")
        offset, skipped = self._places.nearest(index)
        with _opened(self._path) as file:
            if _state(file) != self._state:
                raise CorpusError(f"{str(self._path)!r} was changed since it was opened; open the corpus again")
            file.seek(offset)
            for record in self._records(file):
                if skipped == 0:
                    return record.document(default_id=f"{self.name}-{index + 1}", max_words=max_words)
                skipped -= 1
        raise CorpusError(f"{str(self._path)!r} ends before document {index}; open the corpus again")

    def _records(self, file: BinaryIO) -> Iterator[Record]:
        for _, line in _lines(file, self._path):
            if line.strip() and (record := record_from_json(line)).belongs_to(self._fields):
                yield record


def _lines(file: BinaryIO, path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, line) from where the file stands."""
    offset, number = file.tell(), 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            raise CorpusError(f"{str(path)!r}: line {number} is longer than {MAX_LINE_BYTES} bytes")
        yield offset, line
        offset += len(line)


def _opened(path: Path) -> BinaryIO:
    try:
        return open_plain(path, follow=True)
    except PoolError as error:
        raise CorpusError(f"the corpus cannot be opened: {error}") from error


def _state(file: BinaryIO) -> tuple[int, int]:
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns
