"""Names for programs in Gymnasium's registry."""

from __future__ import annotations

import logging
from pathlib import Path

import gymnasium
from gymnasium.envs.registration import register

from spade_gym.errors import PoolError
from spade_gym.locate import program_name, remember_pool
from spade_gym.plain_file import as_path, shown
from spade_gym.pool import Pool, registry

logger = logging.getLogger(__name__)

_SINGLE = "spade_gym.envs.program_env:ProgramEnv"
_VECTOR = "spade_gym.envs.program_vector_env:ProgramVectorEnv"
NAMESPACE = "spade"


def _register(name: str, **kwargs: str) -> None:
    """Register or replace one id: Gymnasium only warns when an id is registered twice, and keeps both alive."""
    gymnasium.registry.pop(name, None)
    register(name, entry_point=_SINGLE, vector_entry_point=_VECTOR, kwargs=kwargs, disable_env_checker=True)


def register_bundled() -> None:
    """Register ``spade/Program-v0`` and ``spade/<Name>-v0`` for every bundled program.

    Only folder names are read, so importing the package stays cheap.
    """
    _register(f"{NAMESPACE}/Program-v0")
    root = registry().path
    for folder in sorted(root.iterdir()):
        if not folder.name.startswith(("_", ".")) and folder.is_dir():
            name = program_name(folder.name)
            _register(f"{NAMESPACE}/{name}-v0", program=f"{NAMESPACE}/{name}")


def register_pool(path: str | Path, *, namespace: str) -> tuple[str, ...]:
    """Register every program of a pool as ``<namespace>/<Name>-v0``.

    Registering again, after a program was edited or added, replaces the ids of this namespace. Where a name has
    several programs, each id carries the first eight digits of its digest. The ids hold in this process; in others
    (spawned workers) register again, or use ``gymnasium.make("spade_gym:spade/Program-v0", program=<path>)``.

    Args:
        path: A pool folder.
        namespace: A word other than ``spade``.

    Returns:
        The registered ids, sorted.

    Raises:
        TypeError: The path is no path, or the namespace no text.
        PoolError: The folder is missing, empty or damaged, or the namespace is taken or no word.
    """
    if not isinstance(namespace, str):
        raise TypeError(f"namespace must be text, got {type(namespace).__name__}: {shown(namespace)}")
    if not namespace.isidentifier() or namespace == NAMESPACE:
        raise PoolError(f"namespace must be a word other than {NAMESPACE!r}, got {namespace!r}")
    pool = Pool(as_path("the path of a pool", path).resolve())
    damages = pool.verify()
    if damages:
        first = damages[0]
        raise PoolError(f"{pool.path}: {len(damages)} damaged entries, first {first.entry}: {first.problem}")
    programs = list(pool)
    if not programs:
        raise PoolError(f"{pool.path} holds no programs: is it a pool? (spade-gym pool add … makes one)")
    names = [program.name for program in programs]
    for known in [key for key, spec in gymnasium.registry.items() if spec.namespace == namespace]:
        gymnasium.registry.pop(known)
    ids = []
    for program in programs:
        unique = program.name if names.count(program.name) == 1 else f"{program.name}_{program.digest[:8]}"
        ids.append(f"{namespace}/{unique}-v0")
        _register(ids[-1], program=program.digest)
    remember_pool(pool, namespace=namespace)
    logger.info("registered %d programs of %s", len(ids), pool.path)
    return tuple(sorted(ids))
