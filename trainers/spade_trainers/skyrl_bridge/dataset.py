"""Programs as a data set of SkyRL: a JSONL file, one program a line.

SkyRL's rows have a prompt; ours is only a name, since what a player sees first is what the program shows when it is
reset. The other columns reach the generator: the program's whole text and manifest, and the seed of its instances.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from spade_gym.errors import SpadeError
from spade_gym.pool import Pool
from spade_gym.programs.program import Manifest, Program
from spade_gym.selfplay.run_store import FILE_NAME, RunStore

ENV_CLASS = "spade"


class DatasetError(SpadeError):
    """A row that holds no program."""


def row_of(program: Program, *, seed: int) -> dict[str, Any]:
    """Return the row of a program.

    Args:
        program: What is to be played.
        seed: Of its instances.
    """
    return {
        "prompt": [{"role": "user", "content": f"Play {program.name}."}],
        "env_class": ENV_CLASS,
        "source": program.source,
        "manifest": program.manifest.to_toml(program.digest),
        "seed": seed,
    }


def program_of(extras: Mapping[str, Any]) -> Program:
    """Return the program of a row.

    Args:
        extras: The row's columns beside prompt and class of environment.

    Raises:
        DatasetError: A column is missing.
        ManifestError: The manifest is damaged, or not of this source.
    """
    try:
        source, text = extras["source"], extras["manifest"]
    except KeyError as error:
        raise DatasetError(f"a row of the data set lacks the column {error}; write it with write_dataset") from error
    manifest, digest = Manifest.from_toml(text, where="the manifest of a row")
    return Program(source, manifest, digest)


def programs_of(folder: Path) -> list[Program]:
    """Return the programs of a pool, or of the last pool of a run.

    Args:
        folder: A pool, or the folder of a self-play run, which is only read.

    Raises:
        DatasetError: The run has no pool yet.
        PoolError: The pool cannot be read.
        StoreError: The run is damaged.
    """
    if not (folder / FILE_NAME).is_file():
        return list(Pool(folder))
    with RunStore(folder, read_only=True) as store:
        rows = store.rows("SELECT * FROM pools WHERE epoch = (SELECT max(epoch) FROM pools) ORDER BY environment")
        if not rows:
            raise DatasetError(f"the run in {folder} has no pool yet")
        found = []
        for row in rows:
            attempt = store.row(
                "SELECT manifest FROM attempts WHERE digest = ? AND outcome = 'accepted' ORDER BY key", (row["digest"],)
            )
            if attempt is None:
                raise DatasetError(
                    f"the run in {folder} does not say how its program {row['digest'][:12]} was accepted"
                )
            found.append(store.program(row["digest"], str(attempt["manifest"])))
    return found


def write_dataset(programs: Iterable[Program], path: Path, *, seed: int = 0) -> int:
    """Write a data set; return its number of rows.

    Args:
        programs: One row each.
        path: A new ``.jsonl`` file.
        seed: Of the first row's instances; each row has the next one.

    Raises:
        DatasetError: There are no programs.
    """
    lines = [json.dumps(row_of(program, seed=seed + number)) + "\n" for number, program in enumerate(programs)]
    if not lines:
        raise DatasetError("a data set needs at least one program")
    with path.open("x", encoding="utf-8") as file:
        file.writelines(lines)
    return len(lines)
