"""Which texts ground the programs, and how is one of them drawn?

A corpus is a JSONL file, a Parquet file or a folder of text files. Opening reads it once from end to end, so that a
bad line is named before a run begins and not in the middle of it; after that any document is read by its number. Its
texts are data: they reach nothing but a prompt.

The default corpus ships with the package: 72 documents of about 220 words (mathematics, science, descriptions of
interfaces). ``prompts`` and ``corpus`` are part of a run's manifest by their digests.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import numpy as np

from spade_gym.designer.corpus_folder import FolderCorpus
from spade_gym.designer.corpus_jsonl import JsonlCorpus
from spade_gym.designer.corpus_parquet import ParquetCorpus
from spade_gym.designer.corpus_records import CorpusError, cut_words
from spade_gym.designer.request import Document
from spade_gym.plain_file import as_path, shown
from spade_gym.types import Setting

__all__ = ["MAX_WORDS", "Corpus", "CorpusError", "cut_words", "default_corpus", "draw_document", "open_corpus"]

#: Words of a document that a request holds (method, section 2).
MAX_WORDS: Mapping[Setting, int] = MappingProxyType({"single_turn": 6_000, "multi_turn": 6_000, "tool_use": 4_000})
_DEFAULT_FIELDS: Mapping[Setting, tuple[str, ...]] = MappingProxyType(
    {"single_turn": ("mathematics", "science"), "multi_turn": ("mathematics", "science"), "tool_use": ("api",)}
)
_JSONL_ENDINGS = (".jsonl", ".ndjson", ".json")


class Corpus(Protocol):
    """Documents by number.

    Attributes:
        name: For reports and manifests.
        digest: sha256, 64 hexadecimal digits.
    """

    name: str
    digest: str

    def __len__(self) -> int:
        """How many documents there are; at least 1."""

    def document(self, index: int, *, max_words: int) -> Document:
        """Return a document by its number from 0, cut to its first ``max_words`` words."""


def open_corpus(path: Path | str, *, fields: Collection[str] = ()) -> Corpus:
    """Open a corpus: ``.jsonl``, ``.parquet``, or a folder of text files.

    Args:
        path: The file or folder.
        fields: Take only documents whose ``field`` is one of these; not for folders.

    Raises:
        CorpusError: It cannot be read, or holds lines that are no documents.
        ValueError: Fields are asked of a folder.
    """
    place = as_path("the path of a corpus", path)
    if place.is_dir():
        if fields:
            raise ValueError(f"files of a folder have no fields; leave them out for {shown(str(place), limit=300)}")
        return FolderCorpus(place)
    if place.suffix.lower() == ".parquet":
        return ParquetCorpus(place, fields=fields)
    if place.suffix.lower() in _JSONL_ENDINGS:
        return JsonlCorpus(place, fields=fields)
    raise CorpusError(
        f"{shown(str(place), limit=300)} is no corpus: a .jsonl or .parquet file, or a folder of text files is needed"
    )


def default_corpus(setting: Setting) -> Corpus:
    """Open the shipped documents: mathematics and science for games, descriptions of interfaces for tool use.

    Raises:
        CorpusError: The package is not installed as files.
    """
    path = resources.files("spade_gym.designer") / "corpus" / "corpus.jsonl"
    if not isinstance(path, Path):
        raise CorpusError("spade_gym is not installed as files on disk (a zip archive?); unpack it")
    return JsonlCorpus(path, fields=_DEFAULT_FIELDS[setting])


def draw_document(corpus: Corpus, rng: np.random.Generator, *, max_words: int) -> Document:
    """Draw a document, each with the same probability."""
    return corpus.document(int(rng.integers(len(corpus))), max_words=max_words)
