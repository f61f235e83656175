"""``spade-gym run show|plays|program|diff RUN``: looks inside a self-play run, also while it goes on."""

from __future__ import annotations

import argparse
import difflib
import json
from pathlib import Path
from typing import Any

from spade_gym.cli.run_report import number, print_run, table
from spade_gym.cli.terminal import bold, visible, width, wrap
from spade_gym.errors import SpadeError
from spade_gym.rollout.play import Play
from spade_gym.selfplay.recipe import Recipe, differences
from spade_gym.selfplay.run_store import RunStore, play_of_row
from spade_gym.selfplay.settings_table import read_table

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
    rows = store.rows("SELECT * FROM plays ORDER BY rollout, environment, seed, arm DESC")
    rollout = args.rollout if args.rollout is not None else _first_with_both(rows)
    chosen = [
        row
        for row in rows
        if row["rollout"] == rollout
        and (args.environment is None or row["environment"] == args.environment)
        and (args.seed is None or row["seed"] == args.seed)
    ]
    if not chosen:
        known = sorted({row["rollout"] for row in rows})
        raise SpadeError(f"no such plays in {args.run}; there are plays of the rollouts {_span(known)}")
    pairs: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in chosen:
        pairs.setdefault((row["environment"], row["seed"]), []).append(row)
    for (environment, seed), mine in list(pairs.items())[: max(1, args.limit)]:
        print(
            bold(f"rollout {rollout}, environment {environment} ({_name(store, mine[0]['digest'])}), instance {seed}")
        )
        print("\n".join(_side_by_side([_play_lines(play_of_row(row)) for row in mine[:2]])))
        print()
    if len(pairs) > args.limit:
        print(f"{len(pairs) - args.limit} more instances: --limit {len(pairs)}")


def _first_with_both(rows: list[dict[str, Any]]) -> int:
    hinted = [row["rollout"] for row in rows if row["arm"] == "hint"]
    return min(hinted) if hinted else min((row["rollout"] for row in rows), default=0)


def _span(numbers: list[int]) -> str:
    return f"{numbers[0]} to {numbers[-1]}" if numbers else "none"


def _name(store: RunStore, digest: str) -> str:
    found = store.row("SELECT name FROM programs WHERE digest = ?", (digest,))
    return visible(str(found["name"])) if found else digest[:12]


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
    print(bold(f"{visible(row['name'])} {digest}"))
    if attempt is not None:
        findings = json.loads(attempt["findings"])
        print(f"request {attempt['key']}: {attempt['outcome']}")
        for kind in ("failures", "warnings", "notices"):
            for finding in findings[kind]:
                name = finding.get("check") or finding.get("kind")
                print(visible(f"  {kind[:-1]} {name}: {finding['message']}"))
        print(visible(attempt["manifest"]))
    if hint is not None:
        print(visible(f"hint: {hint['text']}" if hint["text"] else f"no hint: {hint['reason']}"))
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
        print("\n".join(table(["epoch", "plays", "won", "regret", "reward"], cells)))
    print()
    print(visible(row["source"]))


def _find(store: RunStore, which: str) -> dict[str, Any]:
    epoch, slash, place = which.partition("/")
    if slash and epoch.isdecimal() and place.isdecimal():
        query = "SELECT programs.* FROM pools JOIN programs USING (digest) WHERE epoch = ? AND environment = ?"
        found = store.rows(query, (int(epoch), int(place)))
    else:
        query = "SELECT * FROM programs WHERE name = ? OR substr(digest, 1, ?) = ? ORDER BY digest"
        found = store.rows(query, (which, max(6, len(which)), which))
    if not found:
        names = [row["name"] for row in store.rows("SELECT DISTINCT name FROM programs ORDER BY name")]
        near = difflib.get_close_matches(which, names, n=3)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise SpadeError(f"the run has no program {which!r}; give EPOCH/PLACE, a digest's beginning, or a name{hint}")
    return found[0]


# ---- two runs


def _diff(one: Path, other: Path) -> int:
    """Print in what two runs differ."""
    with RunStore(one, read_only=True) as left, RunStore(other, read_only=True) as right:
        changed = _settings_lines(left, right)
        print("\n".join(visible(line) for line in changed) if changed else "the same settings")
        lines = [line for name in _tables(left) for line in _table_lines(left, right, name)]
    print("\n".join(visible(line) for line in lines) if lines else "the same rows in every table")
    return 1 if changed or lines else 0


def _settings_lines(left: RunStore, right: RunStore) -> list[str]:
    recipes = [read_table(Recipe, store.meta("recipe") or {}, str(store.path)) for store in (left, right)]
    return [f"{name}: {old!r} → {new!r}" for name, (old, new) in differences(recipes[0], recipes[1]).items()]


def _tables(store: RunStore) -> list[str]:
    rows = store.rows("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name")
    return [row["name"] for row in rows if row["name"] != "meta"]


def _table_lines(left: RunStore, right: RunStore, name: str) -> list[str]:
    """How many rows of a table differ, times and paths aside, and the first of them."""
    info = left.rows(f"SELECT name, pk FROM pragma_table_info('{name}')")
    columns = [row["name"] for row in info if not row["name"].endswith(_ALIKE_COLUMNS)]
    keys = [row["name"] for row in sorted(info, key=lambda row: row["pk"]) if row["pk"]]
    sides = [
        {tuple(row[key] for key in keys): row for row in store.rows(f"SELECT {', '.join(columns)} FROM {name}")}
        for store in (left, right)
    ]
    differing = [key for key in {**sides[0], **sides[1]} if sides[0].get(key) != sides[1].get(key)]
    if not differing:
        return []
    key = differing[0]
    one, two = sides[0].get(key), sides[1].get(key)
    what = "only here" if two is None else "only there" if one is None else _columns(one, two)
    return [f"{name}: {len(differing)} rows differ; first {'/'.join(map(str, key))}: {what}"]


def _columns(one: dict[str, Any], other: dict[str, Any]) -> str:
    return ", ".join(f"{name} {_brief(one[name])} → {_brief(other[name])}" for name in one if one[name] != other[name])


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
