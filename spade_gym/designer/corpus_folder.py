"""A corpus in a folder of text files, one document each."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from spade_gym.designer.corpus_records import CorpusError, Faults, Record, record_from_row
from spade_gym.designer.quoting import escaped
from spade_gym.designer.request import Document
from spade_gym.errors import PoolError
from spade_gym.plain_file import read_text

#: Endings of text files, and the largest that is read, in bytes.
ENDINGS = (".txt", ".md", ".rst")
MAX_FILE_BYTES = 16 << 20


class FolderCorpus:
    """Every ``.txt``, ``.md`` and ``.rst`` file under a folder, in the order of their paths; links are not followed.

    Opening reads and checks every file once; what stays in memory are the paths.

    Args:
        path: The folder.

    Attributes:
        name: The folder's name.
        digest: sha256 over the paths and contents.

    Raises:
        CorpusError: There is no such folder, a file is no document (it is named), or there is none.
    """

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)
        self.name = escaped(self._path.resolve().name)
        self._files = sorted(_files(self._path))
        hasher, faults = hashlib.sha256(), Faults()
        for file in self._files:
            try:
                body = self._record(file).body
            except CorpusError as error:
                faults.add(escaped(file), error)
                continue
            hasher.update(hashlib.sha256(file.encode("utf-8", "surrogateescape")).digest())
            hasher.update(hashlib.sha256(body.encode("utf-8")).digest())
        faults.refuse(str(self._path))
        if not self._files:
            raise CorpusError(f"{str(self._path)!r} holds no file that ends in {', '.join(ENDINGS)}")
        self.digest = hasher.hexdigest()

    def __len__(self) -> int:
        return len(self._files)

    def document(self, index: int, *, max_words: int) -> Document:
        """Return a document by its number from 0, cut to its first words; its id is its path in the folder.

        Bytes of a path that are no UTF-8, and control characters, are escapes in the id.

        Raises:
            CorpusError: The file is gone or is no document any more.
            IndexError: There is no such document.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"the corpus {self.name} has documents 0 to {len(self) - 1}, got {index}")
        file = self._files[index]
        return self._record(file).document(default_id=file, max_words=max_words)

    def _record(self, file: str) -> Record:
        try:
            return record_from_row({"text": read_text(self._path / file, max_bytes=MAX_FILE_BYTES)})
        except PoolError as error:
            raise CorpusError(str(error)) from error


def _files(folder: Path) -> Iterator[str]:
    """Yield the relative paths of the text files under a folder."""
    for parent, _, names in os.walk(folder, followlinks=False):
        for name in names:
            path = Path(parent, name)
            if path.suffix.lower() in ENDINGS and not path.is_symlink():
                yield path.relative_to(folder).as_posix()
