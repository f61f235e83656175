"""``spade-gym run show|plays|program|diff RUN``: looks inside a self-play run, also while it goes on."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spade_gym.cli.run_report import number, print_run, say, say_title, table
from spade_gym.cli.terminal import width, wrap
from spade_gym.curriculum.writer_lock import StoreError
from spade_gym.errors import SpadeError
from spade_gym.plain_file import shown
from spade_gym.rollout.play import Play
from spade_gym.selfplay.recipe import Recipe, differences
from spade_gym.selfplay.run_schema import Column, tables
from spade_gym.selfplay.run_store import RunStore
from spade_gym.selfplay.settings_table import read_table

#: Numbers that a message lists, and columns that a line of ``diff`` names.
_MAX_NUMBERS, _MAX_COLUMNS = 12, 3
_MAX_PLACE = 20  # digits that a place in a pool has at most
_MAX_BRIEF = 40
_ALIKE_COLUMNS = ("_at", "_seconds", "_path")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``spade-gym run``."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="show|plays|program|diff")
    show = actions.add_parser("show", help="funnel of replies, win rates, regrets, tokens and seconds")
    plays = actions.add_parser("plays", help="transcripts, of one instance in both arms side by side")
    plays.add_argument("--environment", type=int, metavar="N", help="place in the pool (all)")
    plays.add_argument("--rollout", type=int, metavar="N", help="number of the rollout (the first with both arms)")
    plays.add_argument("--seed", type=int, metavar="N", help="one instance")
    plays.add_argument("--limit", type=int, default=4, metavar="N", help="instances shown (4)")
    program = actions.add_parser("program", help="a program: source, hint, checks, where it comes from")
    diff = actions.add_parser("diff", help="how another run differs: settings, scores, plays")
    for parts in (show, plays, program, diff):
        parts.add_argument("run", type=Path, metavar="RUN", help="the run's folder")
    program.add_argument("which", metavar="EPOCH/N|DIGEST|NAME", help="place in a pool, beginning of a digest, or name")
    diff.add_argument("other", type=Path, metavar="OTHER", help="the other run's folder")


def run(args: argparse.Namespace) -> int:
    """Print what was asked for; ``diff`` returns 1 where the runs differ."""
    if args.action == "show":
        print_run(args.run)
        return 0
    if args.action == "diff":
        return _diff(args.run, args.other)
    with RunStore(args.run, read_only=True) as store:
        if args.action == "plays":
            _print_plays(store, args)
        else:
            _print_program(store, args.which)
    return 0


# ---- plays


def _print_plays(store: RunStore, args: argparse.Namespace) -> None:
    rollout = args.rollout if args.rollout is not None else _first_with_both(store)
    chosen = {"rollout": rollout, "environment": args.environment, "seed": args.seed}
    wanted = {name: value for name, value in chosen.items() if value is not None}
    where = " AND ".join(f"{name} = ?" for name in wanted)
    query = f"SELECT DISTINCT environment, seed FROM plays WHERE {where} ORDER BY environment, seed"
    instances = store.rows(query, tuple(wanted.values()))
    if not instances:
        raise SpadeError(f"no such plays in {args.run}; {_what_there_is(store, wanted)}")
    for instance in instances[: max(1, args.limit)]:
        plays = _of_each_arm(store, rollout, instance)
        name = _name(store, plays[0].digest)
        place, seed = instance["environment"], instance["seed"]
        say_title(f"rollout {rollout}, environment {place} ({name}), instance {seed}")
        say(_side_by_side([_play_lines(play) for play in plays]))
        print()
    if len(instances) > max(1, args.limit):
        say([f"{len(instances) - max(1, args.limit)} more instances: --limit {len(instances)}"])


def _first_with_both(store: RunStore) -> int:
    """The first rollout with hinted plays, or with plays at all."""
    for arm in ("WHERE arm = 'hint'", ""):
        found = store.row(f"SELECT rollout FROM plays {arm} ORDER BY rollout LIMIT 1")
        if found is not None:
            return int(found["rollout"] or 0)
    return 0


def _of_each_arm(store: RunStore, rollout: int, instance: dict[str, Any]) -> list[Play]:
    """The first play of an instance in each arm."""
    query = "SELECT arm, min(key) AS key FROM plays WHERE rollout = ? AND environment IS ? AND seed IS ? GROUP BY arm"
    rows = store.rows(query, (rollout, instance["environment"], instance["seed"]))
    keys = {row["arm"]: row["key"] for row in rows}
    found = [store.row("SELECT * FROM plays WHERE key = ?", (keys[arm],)) for arm in ("plain", "hint") if arm in keys]
    plays = [store.play(row) for row in found if row is not None]
    if not plays:
        raise SpadeError(f"{store.path} holds plays of the arms {shown(list(keys))}; a run has plain and hint")
    return plays


def _what_there_is(store: RunStore, wanted: dict[str, int]) -> str:
    """Name the first of the wanted numbers that no play has, and those that there are."""
    where = "1"
    values: tuple[int, ...] = ()
    for name, value in wanted.items():
        query = f"SELECT DISTINCT {name} FROM plays WHERE {where} AND {name} IS NOT NULL ORDER BY {name}"
        known = [row[name] for row in store.rows(query, values)]
        if value not in known:
            of = f" of {' and '.join(f'{key} {wanted[key]}' for key in wanted if f'{key} = ?' in where)}" * bool(values)
            return f"there are plays{of} of the {name}s {_listed(known)}"
        where, values = f"{where} AND {name} = ?", (*values, value)
    return "there are none at all"


def _listed(numbers: list[int]) -> str:
    if not numbers:
        return "none"
    if len(numbers) > 1 and numbers[-1] - numbers[0] == len(numbers) - 1:  # sorted, and no two alike
        return f"{numbers[0]} to {numbers[-1]}"
    more = f" and {len(numbers) - _MAX_NUMBERS} more" if len(numbers) > _MAX_NUMBERS else ""
    return ", ".join(map(str, numbers[:_MAX_NUMBERS])) + more


def _name(store: RunStore, digest: str) -> str:
    found = store.row("SELECT name FROM programs WHERE digest = ?", (digest,))
    return str(found["name"]) if found else digest[:12]


def _play_lines(play: Play) -> list[str]:
    """A transcript, unwrapped."""
    result = f"won, return {play.total:g}" if play.won else f"return {play.total:g}"
    if play.status != "ok":
        result = f"{play.status}: {play.fault}"
    lines = [f"[{play.arm}] {result}; {play.ended} after {play.length} actions"]
    for turn in play.turns:
        lines += ["", "environment:", *turn.observation.splitlines(), "", "agent:", *turn.completion.splitlines()]
        if turn.action is not None:
            lines.append(f"→ {turn.action} (reward {turn.reward:g})")
    if play.last_observation:
        lines += ["", "environment:", *play.last_observation.splitlines()]
    return lines


def _side_by_side(columns: list[list[str]]) -> list[str]:
    each = (width() - 3 * (len(columns) - 1)) // len(columns)
    laid = [[row for line in column for row in wrap(line, columns=each).splitlines() or [""]] for column in columns]
    height = max(len(column) for column in laid)
    padded = [column + [""] * (height - len(column)) for column in laid]
    return [" │ ".join(cell.ljust(each) for cell in row).rstrip() for row in zip(*padded, strict=True)]


# ---- a program


def _print_program(store: RunStore, which: str) -> None:
    row = _find(store, which)
    digest = row["digest"]
    attempt = store.row("SELECT * FROM attempts WHERE digest = ? ORDER BY outcome != 'accepted', key", (digest,))
    hint = store.row("SELECT * FROM hints WHERE digest = ?", (digest,))
    say_title(f"{row['name']} {digest}")
    if attempt is not None:
        say([f"request {attempt['key']}: {attempt['outcome']}", *_finding_lines(store, attempt)])
        say([str(attempt["manifest"])])
    if hint is not None:
        say([f"hint: {hint['text']}" if hint["text"] else f"no hint: {hint['reason']}"])
    scores = store.rows("SELECT * FROM scores WHERE digest = ? ORDER BY epoch", (digest,))
    if scores:
        cells = [
            [
                str(s["epoch"]),
                str(s["num_plain"]),
                number(s["win_rate"]),
                number(s["regret"], "+.2f"),
                number(s["reward"]),
            ]
            for s in scores
        ]
        say(table(["epoch", "plays", "won", "regret", "reward"], cells))
    print()
    say([str(row["source"])])


def _finding_lines(store: RunStore, attempt: dict[str, Any]) -> Iterator[str]:
    findings = store.findings(attempt)
    for kind, found in (
        ("failure", findings.failures),
        ("warning", findings.warnings),
        ("notice", findings.notices),
    ):
        for finding in found:
            yield f"  {kind} {finding.check or finding.kind}: {finding.message}"


def _find(store: RunStore, which: str) -> dict[str, Any]:
    epoch, slash, place = which.partition("/")
    if slash and epoch.isdecimal() and place.isdecimal() and len(which) < _MAX_PLACE:
        query = "SELECT programs.* FROM pools JOIN programs USING (digest) WHERE epoch = ? AND environment = ?"
        found = store.rows(query, (int(epoch), int(place)))
    else:
        query = "SELECT * FROM programs WHERE name = ? OR substr(digest, 1, ?) = ? ORDER BY digest"
        found = store.rows(query, (which, max(6, len(which)), which))
    if not found:
        query = "SELECT DISTINCT name FROM programs WHERE name IS NOT NULL ORDER BY name"
        names = [row["name"] for row in store.rows(query)]
        near = difflib.get_close_matches(which, names, n=3)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise SpadeError(
            f"the run has no program {shown(which)}; give EPOCH/PLACE, a digest's beginning, or a name{hint}"
        )
    return found[0]


# ---- two runs


def _diff(one: Path, other: Path) -> int:
    """Print in what two runs differ."""
    with RunStore(one, read_only=True) as left, RunStore(other, read_only=True) as right:
        changed = _settings_lines(left, right)
        say(changed or ["the same settings"])
        lines = [line for name in tables() if name != "meta" for line in _table_lines(left, right, name)]
    say(lines or ["the same rows in every table"])
    return 1 if changed or lines else 0


def _settings_lines(left: RunStore, right: RunStore) -> list[str]:
    recipes = [read_table(Recipe, store.meta("recipe") or {}, f"{store.path}, recipe") for store in (left, right)]
    return [
        f"{name}: {_brief(old)} → {_brief(new)}" for name, (old, new) in differences(recipes[0], recipes[1]).items()
    ]


def _table_lines(left: RunStore, right: RunStore, name: str) -> Iterator[str]:
    """How many rows of a table differ, times and paths aside, and the first of them."""
    first, count = "", 0
    for key, one, two in _merged(left, right, name, tables()[name]):
        if one != two:
            count += 1
            first = first or f"{'/'.join(map(_brief, key))}: {_difference(one, two)}"
    if count:
        yield f"{name}: {count} row{'s differ' if count > 1 else ' differs'}; first {first}"


_Row = dict[str, Any]


def _merged(
    left: RunStore, right: RunStore, name: str, columns: tuple[Column, ...]
) -> Iterator[tuple[tuple[Any, ...], _Row | None, _Row | None]]:
    """Each key of a table with its row in both runs, of which two are in memory at a time."""
    keys = [column.name for column in sorted(columns, key=lambda column: column.key_place) if column.key_place]
    shown_columns = [column.name for column in columns if not column.name.endswith(_ALIKE_COLUMNS)]
    query = f"SELECT {', '.join(shown_columns)} FROM {name} ORDER BY {', '.join(keys)}"
    sides = [_keyed(store, query, keys) for store in (left, right)]
    one, two = (next(side, None) for side in sides)
    while one is not None or two is not None:
        if two is None or (one is not None and one[0] < two[0]):
            assert one is not None
            yield one[0], one[1], None
            one = next(sides[0], None)
        elif one is None or two[0] < one[0]:
            yield two[0], None, two[1]
            two = next(sides[1], None)
        else:
            yield one[0], one[1], two[1]
            one, two = next(sides[0], None), next(sides[1], None)


def _keyed(store: RunStore, query: str, keys: list[str]) -> Iterator[tuple[tuple[Any, ...], _Row]]:
    """The rows with their keys."""
    for row in store.each(query):
        found = tuple(row[key] for key in keys)
        if None in found:
            raise StoreError(f"{store.path} is damaged: a row of it has no key. It was left as it is")
        yield found, row


def _difference(one: _Row | None, other: _Row | None) -> str:
    if one is None or other is None:
        return "only here" if other is None else "only there"
    names = [name for name in one if one[name] != other[name]]
    told = ", ".join(f"{name} {_brief(one[name])} → {_brief(other[name])}" for name in names[:_MAX_COLUMNS])
    return told + (f" and {len(names) - _MAX_COLUMNS} more columns" if len(names) > _MAX_COLUMNS else "")


def _brief(value: Any) -> str:
    """A value on one line; a long or binary one by its size."""
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, str) and (len(value) > _MAX_BRIEF or not value.isprintable()):
        return f"<{len(value.encode('utf-8', 'replace'))} bytes>"
    return shown(value, limit=_MAX_BRIEF)
