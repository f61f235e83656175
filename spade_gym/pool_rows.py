"""How the records of a JSONL or Parquet file are read: bounded, one at a time, nothing evaluated."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spade_gym.errors import PoolError
from spade_gym.plain_file import open_plain

#: Longest line of a JSONL file, in bytes.
MAX_LINE_BYTES = 8 << 20


def json_lines(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield every line as (where, object); a line that is no JSON object as (where, PoolError).

    Raises:
        PoolError: It is no plain file, or a line is too long.
    """
    with open_plain(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES + 1), b""), start=1):
            where = f"{path.name} line {number}"
            if len(line) > MAX_LINE_BYTES:
                raise PoolError(f"{where} is longer than {MAX_LINE_BYTES} bytes")
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                yield where, PoolError(f"{where} is not valid JSON: {error}")
                continue
            yield where, row if isinstance(row, dict) else PoolError(f"{where} is no JSON object: {line[:60]!r}")


def parquet_rows(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield every row as (where, object).

    Raises:
        PoolError: pyarrow is missing, or the file is no Parquet file.
    """
    try:
        arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise PoolError(
            "reading Parquet needs pyarrow: pip install 'spade-gym[parquet]' (in a clone: pip install '.[parquet]'), "
            "or convert the file to JSONL"
        ) from error
    number = 0
    try:
        for batch in parquet.ParquetFile(path).iter_batches(batch_size=64):
            for row in batch.to_pylist():
                number += 1
                yield f"{path.name} row {number}", row
    except (arrow.ArrowException, OSError) as error:
        raise PoolError(f"{str(path)!r} is no readable Parquet file (after row {number}): {error}") from error
