"""How one file on disk is read and checked, whatever is in it.

A file is a raw model reply, a program (``.py``), or an entry of a pool (a folder, or the ``program.py`` in one,
with its ``manifest.toml``). A file that cannot be read fails the check ``read``; it never stops the others.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from spade_gym.errors import ManifestError, PoolError, ReplyError, SandboxError

if TYPE_CHECKING:
    from spade_gym.programs.program import Program
    from spade_gym.validation.finding import Finding, Verdict


class Checks(NamedTuple):
    """The two ways to check: a program, and a raw reply together with what to call it."""

    program: Callable[[Program], Verdict]
    reply: Callable[[str, str], Verdict]


def real_checks(isolation: str | None) -> Checks:
    """Return the checks of ``spade_gym.validation`` under an isolation level (``None``: the secure default)."""
    from spade_gym.validation.validate import validate, validate_reply

    return Checks(
        program=lambda program: validate(program, isolation=isolation),
        reply=lambda text, name: validate_reply(
            text, name=name, origin={"kind": "reply", "file": written(name)}, isolation=isolation
        ),
    )


def judge(path: Path, checks: Checks) -> Verdict:
    """Read and check one file; the verdict's ``file`` is the path as it was given.

    Raises:
        SandboxError: The sandbox is broken, so nothing can be said about any program.
    """
    import dataclasses

    started = time.perf_counter()
    try:
        verdict = _judge(path, checks)
    except (PoolError, ManifestError) as error:
        verdict = refusal("read", str(error))
    except ReplyError as error:
        verdict = refusal(error.check, str(error))
    return dataclasses.replace(verdict, file=str(path), seconds=time.perf_counter() - started)


def refusal(check: str, message: str) -> Verdict:
    """Make the verdict on a file from which no program could be read."""
    from spade_gym.validation.finding import Finding, Verdict

    finding = Finding(check=check, message=message, evidence={})
    return Verdict(
        file="",
        accepted=False,
        digest="",
        class_name="",
        repairs=(),
        adapters=(),
        failures=(finding,),
        warnings=(),
        seconds=0.0,
        program=None,
    )


def read_reply(path: Path) -> str:
    """Read a reply or program as text; a link that somebody named himself is followed.

    Raises:
        PoolError: It is missing, no regular file, too large, unreadable, or no UTF-8 text.
    """
    from spade_gym.locate import MAX_REPLY_BYTES
    from spade_gym.plain_file import read_file

    data = read_file(path, max_bytes=MAX_REPLY_BYTES, follow=True)
    if b"\0" in data:
        raise PoolError(
            f"{str(path)!r} is no text: it holds a zero byte at {data.index(0)}. Give replies as UTF-8 text"
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise PoolError(
            f"{str(path)!r} is no UTF-8 text (byte {data[error.start]:#04x} at {error.start}). Save it as UTF-8"
        ) from error


def written(name: str) -> str:
    """Return a file name as a manifest can hold it: bytes that are no UTF-8 as escapes, not too long."""
    return name.encode("utf-8", errors="backslashreplace").decode("utf-8")[:500]


def add_jobs_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--jobs`` and ``--isolation``, which every command that checks programs has."""
    parser.add_argument("--jobs", type=_positive, default=None, metavar="N", help="files at a time (default: cores)")
    add_isolation_argument(parser)


def add_isolation_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--isolation``; L1 and L0 protect little and are only taken by name."""
    parser.add_argument(
        "--isolation",
        type=str.upper,
        choices=("L0", "L1", "L2", "L3"),
        help="how programs are isolated (default: the stronger of L3 and L2 that works here; see doctor)",
    )


def default_jobs() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _judge(path: Path, checks: Checks) -> Verdict:
    if os.path.isdir(path):
        if not os.path.lexists(path / "manifest.toml"):
            raise PoolError(f"{str(path)!r} is a folder without a manifest.toml; give files, or folders of a pool")
        return _judge_entry(path, checks)
    if path.name == "program.py" and os.path.lexists(path.with_name("manifest.toml")):
        return _judge_entry(path.parent, checks)
    text = read_reply(path)
    if path.suffix == ".py":
        from spade_gym.programs.reply import program_from_source

        return checks.program(program_from_source(text, origin={"kind": "file", "file": written(path.name)}))
    return checks.reply(text, path.name)


def _judge_entry(folder: Path, checks: Checks) -> Verdict:
    """Check an entry of a pool under its manifest, also when its source was edited since."""
    import dataclasses

    from spade_gym.plain_file import read_text
    from spade_gym.programs.program import MAX_SOURCE_BYTES, Manifest, Program

    manifest, digest = Manifest.read(folder)
    program = Program(source=read_text(folder / "program.py", max_bytes=MAX_SOURCE_BYTES), manifest=manifest)
    verdict = checks.program(program)
    if program.digest == digest:
        return verdict
    stale = _warning(
        "digest",
        f"the manifest states digest {digest}, the source has {program.digest}: it was edited since. Write the new "
        "digest into manifest.toml",
    )
    return dataclasses.replace(verdict, warnings=(*verdict.warnings, stale))


def _warning(check: str, message: str) -> Finding:
    from spade_gym.validation.finding import Finding

    return Finding(check=check, message=message, evidence={})


def _positive(text: str) -> int:
    number = int(text) if text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be a positive integer, got {text!r}")
    return number


def refuse_unexpected(error: Exception) -> Verdict:
    """Make the verdict on a program on which a check itself broke down: nothing is accepted on doubt.

    Raises:
        SandboxError: The error is the sandbox's, not a check's.
    """
    if isinstance(error, SandboxError):
        raise error
    return refusal(
        "internal",
        f"a check broke down with {type(error).__name__}: {error}. This is a defect of spade-gym; "
        "run again with --debug for the traceback and report it",
    )
