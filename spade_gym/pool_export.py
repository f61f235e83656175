"""How a pool leaves this package: as a pool folder, as JSONL, or in the form in which pools are published.

Every form carries the whole manifest, so importing it again gives the same programs. The same pool gives the
same bytes, and the target appears whole or not at all.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args

from spade_gym.errors import PoolError
from spade_gym.plain_file import as_path
from spade_gym.pool import Pool
from spade_gym.pool_entry import encode_entry
from spade_gym.programs.program import Program

Form = Literal["folder", "jsonl", "published"]


def export_pool(pool: Pool, target: Path | str, form: Form = "folder") -> int:
    """Write all programs of a pool elsewhere and return how many there were.

    Args:
        pool: The pool; a damaged entry stops the export.
        target: A folder (``folder``, ``published``) or file (``jsonl``) that does not exist yet.
        form: ``folder``: a pool folder. ``jsonl``: one JSON object a line, with the source under ``code``.
            ``published``: ``game_*.py``, ``manifest.jsonl`` and ``checksums.sha256``.

    Raises:
        PoolError: The target exists or cannot be written, the form is unknown, or the pool is damaged.
        ManifestError: JSON or TOML cannot hold a value of a manifest.
    """
    target = as_path("the target of an export", target)
    if form not in get_args(Form):
        raise PoolError(f"form must be one of {', '.join(get_args(Form))}, got {form!r}")
    if os.path.lexists(target):
        raise PoolError(f"{str(target)!r} exists; give a name that does not, nothing is overwritten")
    if pool.path.resolve() in target.resolve().parents:
        raise PoolError(
            f"{str(target)!r} lies in the pool itself, as an entry would; name a place outside {pool.title}"
        )
    write = {"folder": _write_folder, "jsonl": _write_jsonl, "published": _write_published}[form]
    temporary = target.with_name(f".tmp-{os.getpid()}-{secrets.token_hex(8)}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        count = write(iter(pool), temporary)
        os.rename(temporary, target)
    except OSError as error:
        raise PoolError(f"{str(target)!r} cannot be written: {error}") from error
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        else:
            temporary.unlink(missing_ok=True)
    return count


def _write_folder(programs: Iterator[Program], target: Path) -> int:
    target.mkdir()
    count = 0
    for program in programs:
        source, manifest = encode_entry(program)
        folder = target / program.digest
        folder.mkdir()
        (folder / "program.py").write_bytes(source)
        (folder / "manifest.toml").write_bytes(manifest)
        count += 1
    return count


def _write_jsonl(programs: Iterator[Program], target: Path) -> int:
    count = 0
    with open(target, "x", encoding="utf-8", newline="\n") as file:
        for program in programs:
            file.write(_line(program, {"code": program.source}))
            count += 1
    return count


def _write_published(programs: Iterator[Program], target: Path) -> int:
    target.mkdir()
    checksums: list[str] = []
    lines: list[str] = []
    for index, program in enumerate(programs):
        name = f"game_{index:05d}.py"
        (target / name).write_bytes(program.source.encode("utf-8"))
        checksums.append(f"{program.digest}  {name}\n")
        lines.append(_line(program, {"file": name}))
    manifest = "".join(lines).encode("utf-8")
    checksums.append(f"{hashlib.sha256(manifest).hexdigest()}  manifest.jsonl\n")
    (target / "manifest.jsonl").write_bytes(manifest)
    (target / "checksums.sha256").write_bytes("".join(checksums).encode("utf-8"))
    return len(lines)


def _line(program: Program, first: dict[str, Any]) -> str:
    """Write one record: the common keys for other readers, and the whole manifest for this package."""
    manifest = program.manifest
    record = {
        **first,
        "env_name": manifest.name,
        "class_name": manifest.class_name,
        "setting": manifest.setting,
        "skill": manifest.skill,
        "difficulty": manifest.difficulty,
        "hint": manifest.hint,
        "digest": program.digest,
        "spade_gym": dataclasses.asdict(manifest),
    }
    try:
        return json.dumps(record, ensure_ascii=True, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise PoolError(f"the manifest of {manifest.name} cannot be written as JSON: {error}") from error
