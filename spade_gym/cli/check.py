"""``spade-gym check``: are these programs sound? With reasons."""

from __future__ import annotations

import argparse
import hashlib
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from spade_gym.cli import check_report
from spade_gym.cli.judge import (
    Checks,
    add_jobs_argument,
    default_jobs,
    judge,
    real_checks,
    refuse_unexpected,
)
from spade_gym.cli.terminal import visible, width
from spade_gym.errors import PoolError, SpadeError
from spade_gym.in_order import in_order

if TYPE_CHECKING:
    from spade_gym.validation.finding import Verdict


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``check``."""
    parser.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="a raw model reply (.md, .txt, ...), a program (.py), or an entry of a pool",
    )
    parser.add_argument("--json", action="store_true", help="print a list with one object a file")
    parser.add_argument("--keep-rejected", type=Path, metavar="DIR", help="copy rejected files there, with reasons")
    add_jobs_argument(parser)
    parser.epilog = "Exit status: 0 when every file is accepted, 1 when one is rejected, 2 for usage errors."


def run(args: argparse.Namespace, *, checks: Checks | None = None) -> int:
    """Check every file and report in the order given; a file that cannot be read is a rejected one.

    Args:
        args: The parsed arguments.
        checks: What to check with; by default ``spade_gym.validation``.
    """
    chosen = checks if checks is not None else real_checks(args.isolation)

    def check_file(path: Path) -> Verdict:
        try:
            return judge(path, chosen)
        except Exception as error:  # one broken check must not stop the other files, nor accept this one
            if args.debug:
                raise
            return _named(refuse_unexpected(error), path)

    verdicts: list[Verdict] = []
    for path, verdict in zip(
        args.files, in_order(check_file, args.files, jobs=args.jobs or default_jobs()), strict=True
    ):
        verdicts.append(verdict)
        if not args.json:
            print(check_report.describe(verdict, columns=width()), end="\n\n", flush=True)
        if args.keep_rejected is not None and not verdict.accepted:
            keep_rejected(path, verdict, args.keep_rejected)
    if args.json:
        print(check_report.dump([check_report.to_json(verdict) for verdict in verdicts]))
    else:
        print(check_report.summarise(verdicts))
    return 0 if all(verdict.accepted for verdict in verdicts) else 1


def keep_rejected(path: Path, verdict: Verdict, folder: Path) -> None:
    """Copy a rejected file into a folder and write its verdict beside it as ``<name>.reason.json``.

    Files of one name from different folders are told apart by a part of their digest. The two files appear whole
    and together, or neither does.

    Raises:
        SpadeError: The folder cannot be written.
    """
    from spade_gym.plain_file import read_file

    try:
        data = read_file(path, max_bytes=1 << 26, follow=True)
    except PoolError:  # unreadable: the reason alone is kept
        data = None
    name = path.name or "unnamed"
    reason = check_report.dump(check_report.to_json(verdict)) + "\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if data is not None and _has_other(folder / name, data):
            name = f"{path.stem}-{hashlib.sha256(data).hexdigest()[:8]}{path.suffix}"
        files = {f"{name}.reason.json": reason.encode("utf-8")}
        _write_together(folder, files if data is None else {name: data, **files})
    except OSError as error:
        raise SpadeError(
            f"the rejected file {visible(str(path))} cannot be kept in {visible(str(folder))}: "
            f"{visible(str(error.strerror or error))}"
        ) from error


def _has_other(path: Path, data: bytes) -> bool:
    """Tell whether a file of another content has this name."""
    from spade_gym.plain_file import read_file

    if not os.path.lexists(path):
        return False
    try:
        return read_file(path, max_bytes=len(data)) != data
    except PoolError:  # a folder, a link, a larger file
        return True


def _write_together(folder: Path, files: dict[str, bytes]) -> None:
    """Write files under temporary names and rename them when all are whole.

    Raises:
        OSError: One cannot be written; what was written of them is removed.
    """
    temporaries = {name: folder / f".tmp-{os.getpid()}-{secrets.token_hex(4)}" for name in files}
    try:
        for name, data in files.items():
            temporaries[name].write_bytes(data)
        for name, temporary in temporaries.items():
            os.replace(temporary, folder / name)
    finally:
        for temporary in temporaries.values():
            temporary.unlink(missing_ok=True)


def _named(verdict: Verdict, path: Path) -> Verdict:
    import dataclasses

    return dataclasses.replace(verdict, file=str(path))
