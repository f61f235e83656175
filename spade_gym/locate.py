"""Which program a text key means: a bundled name, a digest, a folder or a file."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from spade_gym.errors import ManifestError, PoolError, SpadeError
from spade_gym.pool import Pool, registries, registry
from spade_gym.programs.program import Program
from spade_gym.programs.reply import program_from_reply, program_from_source

_DIGEST = re.compile(r"[0-9a-f]{8,64}")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_MAX_BYTES = 1 << 20
_registered_pools: dict[str, Pool] = {}


def folder_name(name: str) -> str:
    """Return the registry folder of a bundled program: ``OddCoin`` → ``odd_coin``."""
    return _CAMEL.sub("_", name).lower()


def program_name(folder: str) -> str:
    """Return the name that belongs to a registry folder: ``odd_coin`` → ``OddCoin``."""
    return "".join(word.capitalize() for word in folder.split("_"))


def remember_pool(pool: Pool, *, namespace: str) -> None:
    """Have names and digests looked up in a pool too, for the rest of this process."""
    _registered_pools[namespace] = pool


def locate(key: str | Path | Program) -> Program:
    """Return the program that a key means.

    Args:
        key: A ``Program``; ``spade/OddCoin`` or ``OddCoin`` (bundled); ``mine/Name`` of a pool registered as
            ``mine``; 8 to 64 hexadecimal digits of a digest (bundled, third parties' and registered pools); a folder
            with ``program.py`` and ``manifest.toml``; a Python file; or a file with a model's raw reply.

    Raises:
        SpadeError: Nothing, or more than one program, answers; the message says what was tried.
        TypeError: The key is neither text, path nor program.
    """
    if isinstance(key, Program):
        return key
    if not isinstance(key, str | Path):
        raise TypeError(
            f"a program is given as a Program, a path, a name or a digest, got {type(key).__name__}: {key!r}"
        )
    path = Path(key)
    text = str(key)
    if path.exists():
        return _from_path(path)
    if _DIGEST.fullmatch(text):
        return _from_digest(text)
    if "/" in text and text.count("/") == 1 and not text.startswith(("/", ".")):
        namespace, name = text.split("/")
        pools = {**registries(), **_registered_pools}
        if namespace in pools:
            name = re.sub(r"-v0$", "", name)
            return _from_registry(name) if namespace == "spade" else pools[namespace].get(name)
    if re.fullmatch(r"\w+", text):
        return _from_registry(text)
    raise PoolError(
        f"no program {text!r}: it is no existing file or folder, no bundled name (spade-gym list) and no digest"
    )


@functools.lru_cache(maxsize=256)
def _from_registry(name: str) -> Program:
    pool = registry()
    folder = pool.path / folder_name(name)
    if re.fullmatch(r"\w+", name) and folder.is_dir():
        program = Program.read(folder)
        if program.name == name:
            return program
    return pool.get(name)


def _from_digest(digits: str) -> Program:
    reasons = []
    for pool in [*_registered_pools.values(), *registries().values()]:
        try:
            return pool.get(digits)
        except PoolError as error:
            reasons.append(str(error))
    raise PoolError(
        f"no program with the digest {digits}… in the bundled or registered pools "
        f"(spade_gym.register_pool(path, namespace=…) adds one): {reasons[0]}"
    )


def _from_path(path: Path) -> Program:
    if path.is_dir():
        return Program.read(path)
    if path.name == "program.py" and (path.parent / "manifest.toml").exists():
        return Program.read(path.parent)
    try:
        data = path.read_bytes()
        if len(data) > _MAX_BYTES:
            raise ManifestError(f"{path} has {len(data)} bytes; a program has at most {_MAX_BYTES}")
        text = data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestError(f"{path} cannot be read as UTF-8 text: {error}") from error
    read = program_from_source if path.suffix == ".py" else program_from_reply
    try:
        return read(text)
    except SpadeError as error:
        raise type(error)(f"{path}: {error}", **({"check": error.check} if hasattr(error, "check") else {})) from error
