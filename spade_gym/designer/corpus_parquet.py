"""A corpus in a Parquet file: one batch of rows in memory at a time. Needs pyarrow (the extra ``parquet``)."""

from __future__ import annotations

import bisect
import hashlib
import importlib
from collections.abc import Collection, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

from spade_gym.designer.corpus_records import CorpusError, Faults, Record, record_from_row
from spade_gym.designer.quoting import escaped
from spade_gym.designer.request import Document
from spade_gym.errors import PoolError
from spade_gym.plain_file import open_plain

_BATCH_ROWS = 64
_CHUNK_BYTES = 1 << 20
_COLUMNS = ("text", "orig_doc", "id", "title", "field")


class ParquetCorpus:
    """Documents of a Parquet file with a column ``text`` or ``orig_doc``, and perhaps ``id``, ``title``, ``field``.

    Opening reads and checks every row once. A document is read out of its row group, batch by batch; files that were
    written with row groups of a few thousand rows are the fastest.

    Args:
        path: The file.
        fields: Take only the documents whose ``field`` is one of these; all of them when empty.

    Attributes:
        name: The file's name without its ending.
        digest: sha256 of the file.

    Raises:
        CorpusError: pyarrow is missing, the file cannot be read, has a row that is no document, or no document.
    """

    def __init__(self, path: Path | str, *, fields: Collection[str] = ()) -> None:
        self._path = Path(path)
        self._fields = frozenset(fields)
        self.name = escaped(self._path.stem)
        self._arrow, self._parquet = _pyarrow()
        self.digest = self._digest()
        faults = Faults()
        counts = [self._count(group, faults) for group in range(self._num_groups())]
        faults.refuse(str(self._path))
        self._ends = list(accumulate(counts))
        if not len(self):
            wanted = f" of the fields {', '.join(sorted(self._fields))}" if self._fields else ""
            raise CorpusError(f"{str(self._path)!r} holds no document{wanted}")

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def document(self, index: int, *, max_words: int) -> Document:
        """Return a document by its number from 0, cut to its first words.

        Raises:
            CorpusError: The file was changed since it was opened.
            IndexError: There is no such document.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"the corpus {self.name} has documents 0 to {len(self) - 1}, got {index}")
        group = bisect.bisect_right(self._ends, index)
        skipped = index - (self._ends[group - 1] if group else 0)
        for _, row in self._rows(group):
            if not (record := record_from_row(row)).belongs_to(self._fields):
                continue
            if skipped == 0:
                return record.document(default_id=f"{self.name}-{index + 1}", max_words=max_words)
            skipped -= 1
        raise CorpusError(f"{str(self._path)!r} ends before document {index}; it was changed: open the corpus again")

    def _count(self, group: int, faults: Faults) -> int:
        """Check the rows of a group; return how many are documents of this corpus."""
        count = 0
        for number, row in self._rows(group):
            try:
                record: Record = record_from_row(row)
            except CorpusError as error:
                faults.add(f"row {number} of row group {group}", error)
                continue
            count += record.belongs_to(self._fields)
        return count

    def _num_groups(self) -> int:
        with _opened(self._path) as file:
            try:
                table = self._parquet.ParquetFile(file)
            except (self._arrow.ArrowException, OSError) as error:
                raise CorpusError(f"{str(self._path)!r} is no readable Parquet file: {error}") from error
            names = table.schema_arrow.names
            if "text" not in names and "orig_doc" not in names:
                raise CorpusError(
                    f"{str(self._path)!r} has no column 'text' or 'orig_doc'; its columns are {', '.join(names)}"
                )
            return int(table.num_row_groups)

    def _rows(self, group: int) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield (number from 1, row) of a row group."""
        number = 0
        with _opened(self._path) as file:
            try:
                table = self._parquet.ParquetFile(file)
                columns = [name for name in _COLUMNS if name in table.schema_arrow.names]
                for batch in table.iter_batches(batch_size=_BATCH_ROWS, row_groups=[group], columns=columns):
                    for row in batch.to_pylist():
                        number += 1
                        yield number, row
            except (self._arrow.ArrowException, OSError) as error:
                raise CorpusError(
                    f"{str(self._path)!r} cannot be read after row {number} of row group {group}: {error}"
                ) from error

    def _digest(self) -> str:
        hasher = hashlib.sha256()
        with _opened(self._path) as file:
            while chunk := file.read(_CHUNK_BYTES):
                hasher.update(chunk)
        return hasher.hexdigest()


def _pyarrow() -> tuple[Any, Any]:
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise CorpusError(
            "reading Parquet needs pyarrow: pip install 'spade-gym[parquet]' (in a clone: pip install '.[parquet]'), "
            "or convert the file to JSONL"
        ) from error


def _opened(path: Path) -> Any:
    try:
        return open_plain(path, follow=True)
    except PoolError as error:
        raise CorpusError(f"the corpus cannot be opened: {error}") from error
