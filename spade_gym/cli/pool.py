"""``spade-gym pool``: keep programs in a folder, and move pools in and out."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from spade_gym.cli.check_report import describe, dump, remedy_for
from spade_gym.cli.judge import Checks, add_jobs_argument, default_jobs, judge, real_checks, refuse_unexpected, written
from spade_gym.cli.list import add_filter_arguments, print_programs
from spade_gym.cli.show import add_detail_arguments, print_program
from spade_gym.cli.terminal import visible, width
from spade_gym.cli.which_program import POOL_VARIABLE, default_pool
from spade_gym.errors import ManifestError, PoolError
from spade_gym.in_order import in_order
from spade_gym.types import SETTINGS

if TYPE_CHECKING:
    from spade_gym.pool import Pool
    from spade_gym.programs.program import Program
    from spade_gym.validation.finding import Verdict


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``pool`` and its actions."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, title="actions")
    add = _action(actions, "add", "check programs and keep the accepted ones")
    add.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a raw reply, a program (.py) or a pool entry")
    add.add_argument("--unchecked", action="store_true", help="keep programs without checking them")
    add.add_argument("--replace", action="store_true", help="replace the manifest of a source that is there already")
    add.add_argument("--name", help="name of the program (one file only)")
    add.add_argument("--skill", help="skill that the programs test")
    add.add_argument("--hint", help="privileged advice, appended to the first observation on request (one file only)")
    add.add_argument("--setting", choices=SETTINGS, help="setting of the programs")
    add_jobs_argument(add)
    add_filter_arguments(_action(actions, "list", "list the programs"))
    show = _action(actions, "show", "show one program")
    show.add_argument("name", metavar="NAME", help="a name, or at least 8 digits of a digest")
    add_detail_arguments(show)
    bring = _action(actions, "import", "bring in a pool folder, a published pool, or a JSONL or Parquet file")
    bring.add_argument("source", type=Path, metavar="SOURCE", help="a folder, or a .jsonl or .parquet file")
    bring.add_argument("--unchecked", action="store_true", help="keep programs without checking them")
    add_jobs_argument(bring)
    export = _action(actions, "export", "write all programs elsewhere")
    export.add_argument("target", type=Path, metavar="TARGET", help="a folder or file that does not exist yet")
    export.add_argument(
        "--form", choices=("folder", "jsonl", "published"), default=None, help="default: by TARGET's end"
    )
    verify = _action(actions, "verify", "read every entry and compare it with its digest")
    verify.add_argument("--json", action="store_true", help="print one object")


def run(args: argparse.Namespace, *, checks: Checks | None = None) -> int:
    """Run one action on a pool.

    Args:
        args: The parsed arguments.
        checks: What to check with; by default ``spade_gym.validation``.
    """
    if args.action in ("add", "import") and not args.unchecked and checks is None:
        checks = real_checks(args.isolation)
    folder: Path = args.pool
    if args.action == "add":
        return _add(args, _pool(folder), checks)
    if args.action == "import":
        return _import(args, _pool(folder), checks)
    if args.action == "export":
        return _export(args, _pool(folder))
    if args.action == "verify":
        return _verify(args, _pool(folder))
    return (print_programs if args.action == "list" else print_program)(args, folder)


def _action(
    actions: argparse._SubParsersAction[argparse.ArgumentParser], name: str, summary: str
) -> argparse.ArgumentParser:
    parser = actions.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
    parser.add_argument(
        "--pool",
        type=Path,
        default=default_pool(),
        metavar="DIR",
        help=f"the pool's folder (default: ${POOL_VARIABLE}, or ./pool)",
    )
    parser.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    return parser


def _pool(folder: Path) -> Pool:
    from spade_gym.pool import Pool

    return Pool(folder)


def _add(args: argparse.Namespace, pool: Pool, checks: Checks | None) -> int:
    """Check (unless told not to) and keep each file; a rejected one is reported like ``check`` does."""
    if (args.name is not None or args.hint is not None) and len(args.files) > 1:
        raise PoolError(f"--name and --hint are for one program, got {len(args.files)} files; add them one at a time")

    def judge_file(path: Path) -> Verdict:
        try:
            return judge(path, checks if checks is not None else _unchecked())
        except Exception as error:  # one broken check must not stop the other files, nor accept this one
            if args.debug:
                raise
            return refuse_unexpected(error)

    num_refused = 0
    for path, verdict in zip(
        args.files, in_order(judge_file, args.files, jobs=args.jobs or default_jobs()), strict=True
    ):
        if not verdict.accepted or verdict.program is None:
            num_refused += 1
            print(describe(verdict, columns=width()), flush=True)
            continue
        try:
            print(_keep(_labelled(verdict.program, args), pool, replace=args.replace), flush=True)
        except (PoolError, ManifestError) as error:
            num_refused += 1
            print(f"refused  {visible(str(path))}: {visible(str(error))}", flush=True)
    return 1 if num_refused else 0


def _keep(program: Program, pool: Pool, *, replace: bool) -> str:
    """Add one program and say what became of it."""
    try:
        old = pool.get(program.digest).manifest
    except PoolError:
        old = None
    pool.add(program, replace=replace)
    label = f"{visible(program.name)}  {program.digest[:12]}"
    if old is None:
        return f"added    {label}"
    if old == program.manifest:
        return f"kept     {label}  it is there already"
    if replace:
        return f"replaced {label}  its manifest"
    return (
        f"kept     {visible(old.name)}  {program.digest[:12]}  this source is there already with another manifest, "
        "which stays; --replace replaces it"
    )


def _labelled(program: Program, args: argparse.Namespace) -> Program:
    changes = {
        key: getattr(args, key) for key in ("name", "skill", "setting", "hint") if getattr(args, key) is not None
    }
    return program.with_manifest(**changes) if changes else program


def _unchecked() -> Checks:
    """Return checks that accept whatever a program can be read from."""
    import dataclasses

    from spade_gym.cli.judge import refusal
    from spade_gym.programs.reply import program_from_reply

    def accept(program: Program) -> Verdict:
        empty = refusal("", "")
        return dataclasses.replace(empty, accepted=True, failures=(), digest=program.digest, program=program)

    return Checks(
        program=accept,
        reply=lambda text, name: accept(program_from_reply(text, origin={"kind": "reply", "file": written(name)})),
    )


def _import(args: argparse.Namespace, pool: Pool, checks: Checks | None) -> int:
    from spade_gym.pool_import import import_entries

    jobs = 1 if checks is None else args.jobs or default_jobs()
    num_entries = num_refused = num_known = 0
    for result in import_entries(args.source, pool, check=_import_check(checks, args), jobs=jobs):
        num_entries += 1
        num_refused += not result.accepted
        num_known += result.accepted and bool(result.message)
        if not result.accepted:
            print(f"refused  {visible(result.entry, newlines=False)}: {visible(result.message)}", flush=True)
    num_new = num_entries - num_refused - num_known
    how = "unchecked" if checks is None else "checked"
    print(f"{num_entries} entries: {num_new} imported ({how}), {num_known} there already, {num_refused} refused")
    return 1 if num_refused or not num_entries else 0


def _import_check(checks: Checks | None, args: argparse.Namespace) -> Callable[[Program], str | None] | None:
    if checks is None:
        return None

    def check(program: Program) -> str | None:
        try:
            verdict = checks.program(program)
        except Exception as error:  # a broken check accepts nothing, and stops nothing else
            if args.debug:
                raise
            verdict = refuse_unexpected(error)
        if verdict.accepted:
            return None
        first = verdict.failures[0]
        remedy = remedy_for(first.check, first.message)
        return f"failed {first.check}: {first.message} {remedy} (--unchecked imports it all the same)"

    return check


def _export(args: argparse.Namespace, pool: Pool) -> int:
    from spade_gym.pool_export import Form, export_pool

    suffix = args.target.suffix
    if args.form is None and suffix not in ("", ".jsonl"):
        raise PoolError(f"no form of a pool ends in {suffix!r}; name a folder or a .jsonl file, or give --form")
    form: Form = args.form or ("jsonl" if suffix == ".jsonl" else "folder")
    count = export_pool(pool, args.target, form)
    print(f"{count} programs written to {args.target} as {form}")
    return 0


def _verify(args: argparse.Namespace, pool: Pool) -> int:
    damages = pool.verify()
    if args.json:
        print(dump({"entries": len(pool), "damages": [damage._asdict() for damage in damages]}))
        return 1 if damages else 0
    for damage in damages:
        print(f"damaged  {visible(damage.entry, newlines=False)}: {visible(damage.problem)}")
    print(f"{len(pool)} entries, {len(damages)} damaged")
    return 1 if damages else 0
