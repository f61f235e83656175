"""Which program a text key means: a bundled name, a digest, a folder or a file."""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path

from spade_gym.errors import ManifestError, PoolError, SpadeError
from spade_gym.plain_file import read_file, shown
from spade_gym.pool import Pool, registries, registry
from spade_gym.pool_entry import read_entry
from spade_gym.programs.program import MAX_SOURCE_BYTES, Program
from spade_gym.programs.reply import program_from_reply, program_from_source

_DIGEST = re.compile(r"[0-9a-f]{8,64}")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
#: Largest file with a program or a raw reply: thinking aloud may be long, a program may not.
MAX_PROGRAM_BYTES, MAX_REPLY_BYTES = MAX_SOURCE_BYTES, 4 << 20
_ALLOWED = "a bundled name (spade-gym list), 8 to 64 digits of a digest, or a file or folder"
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
            with ``program.py`` and ``manifest.toml``; a Python file; or a file with a model's raw reply. Files are
            regular ones of bounded size; symbolic links are not followed.

    Raises:
        SpadeError: Nothing, or more than one program, answers; the message says what was tried.
        TypeError: The key is neither text, path nor program.
    """
    if isinstance(key, Program):
        return key
    if not isinstance(key, str | Path):
        raise TypeError(
            f"a program is given as a Program, a path, a name or a digest, got {type(key).__name__}: {shown(key)}"
        )
    text = str(key)
    if not text:
        raise PoolError(f"the program is an empty text; give {_ALLOWED}")
    if os.path.lexists(text):
        return _from_path(Path(text))
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
    raise PoolError(f"no program {shown(text, limit=300)}: it is no existing file or folder; give {_ALLOWED}")


@functools.lru_cache(maxsize=256)
def _from_registry(name: str) -> Program:
    pool = registry()
    folder = pool.path / folder_name(name)
    if re.fullmatch(r"\w+", name) and os.path.isdir(folder):
        program = read_entry(folder, follow=True)
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
    if path.name == "program.py" and os.path.lexists(path.parent / "manifest.toml"):
        return Program.read(path.parent)
    is_program = path.suffix == ".py"
    try:
        data = read_file(path, max_bytes=MAX_PROGRAM_BYTES if is_program else MAX_REPLY_BYTES)
        text = data.decode("utf-8-sig")
    except PoolError as error:
        raise ManifestError(str(error)) from error
    except UnicodeDecodeError as error:
        raise ManifestError(f"{str(path)!r} is not UTF-8 text: {error}") from error
    read = program_from_source if is_program else program_from_reply
    try:
        return read(text)
    except SpadeError as error:
        raise type(error)(f"{path}: {error}", **({"check": error.check} if hasattr(error, "check") else {})) from error
