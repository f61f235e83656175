"""Which program a name on the command line means: a bundled one, a third party's, or one of a pool."""

from __future__ import annotations

import argparse
import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from spade_gym.errors import PoolError

if TYPE_CHECKING:
    from spade_gym.pool import Pool
    from spade_gym.programs.program import Program


#: The pool that ``spade-gym pool`` means when ``--pool`` is not given; it comes before ``./pool``.
POOL_VARIABLE = "SPADE_GYM_POOL"


class Found(NamedTuple):
    """A program and where it was found.

    Attributes:
        program: The program.
        registry: ``spade`` for the bundled ones, a third party's entry-point name, or ``""`` for a pool folder.
    """

    program: Program
    registry: str

    @property
    def gym_id(self) -> str:
        """The Gymnasium id of a bundled program, ``""`` for others."""
        return f"spade/{self.program.name}-v0" if self.registry == "spade" else ""


def default_pool() -> Path:
    """Return the pool that ``spade-gym pool`` means when none is named."""
    return Path(os.environ.get(POOL_VARIABLE) or "pool")


def add_pool_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--pool``, which names a folder to look in instead of the registries."""
    parser.add_argument("--pool", type=Path, metavar="DIR", help="look in this pool instead of the bundled programs")


def pools(folder: Path | None) -> dict[str, Pool]:
    """Return the pools to look in: one folder, or the bundled programs and third parties'."""
    from spade_gym.pool import Pool, registries

    return {"": Pool(folder)} if folder is not None else registries()


def find(key: str, folder: Path | None) -> Found:
    """Find the program that a name, a Gymnasium id, a digest's first digits, or a file or folder means.

    Raises:
        SpadeError: Nothing or more than one program answers.
    """
    if folder is None and key and os.path.lexists(key):
        from spade_gym.locate import locate

        return Found(locate(key), "")
    name = re.sub(r"-v\d+$", "", key.removeprefix("spade_gym:").removeprefix("spade/"))
    found: list[Found] = []
    errors: list[PoolError] = []
    for registry, pool in pools(folder).items():
        try:
            found.append(Found(pool.get(name), registry))
        except PoolError as error:
            errors.append(error)
    digests = {item.program.digest for item in found}
    if len(digests) > 1:
        owners = " and ".join(f"{item.registry} ({item.program.digest[:12]})" for item in found)
        raise PoolError(f"{key!r} is in several registries: {owners}; give the first digits of a digest")
    if not found:
        raise PoolError(f"{errors[0]}{_elsewhere(key, folder)}")
    return found[0]


def _elsewhere(key: str, folder: Path | None) -> str:
    """Say that the pool of this folder, where nobody asked to look, has the program."""
    from spade_gym.pool import Pool

    pool = default_pool()
    if folder is not None or not os.path.isdir(pool):
        return ""
    try:
        Pool(pool).get(key)
    except PoolError:
        return ""
    return f". The pool {str(pool)!r} has it: add --pool {shlex.quote(str(pool))}"
