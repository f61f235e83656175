"""What a run's folder tells: the funnel of replies, the pools' scores, what was spent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from spade_gym.cli.terminal import bold, visible
from spade_gym.curriculum.writer_lock import StoreError
from spade_gym.selfplay.run_store import RunStore

#: Longest cell of a table, and bold line; a program's name may have any length.
_MAX_CELL, _MAX_TITLE = 60, 400


def say(lines: Iterable[str]) -> None:
    """Print lines: all that is printed of a run, which strangers may have written, goes through here."""
    print("\n".join(visible(line) for line in lines))


def say_title(text: str) -> None:
    """Print one bold line, likewise."""
    print(bold(visible(text[:_MAX_TITLE], newlines=False)))


def print_run(folder: Path) -> None:
    """Print the whole of a run."""
    with RunStore(folder, read_only=True) as store:
        recipe = store.meta("recipe") or {}
        say_title(f"{folder}: {_setting(recipe, 'title') or ''}")
        say(_state(store, recipe))
        for part in (_funnel, _scores, _learning, _faults, _spent, _notes):
            lines = part(store)
            if lines:
                print()
                say(lines)


def _setting(recipe: Any, *names: str) -> Any:
    """A setting of a kept recipe; ``None`` where it is not there. Recipes of absent plugins can be shown too."""
    for name in names:
        recipe = recipe.get(name) if isinstance(recipe, Mapping) else None
    return recipe


def _state(store: RunStore, recipe: Any) -> list[str]:
    """Who takes part, and how far the run is."""
    if not recipe:
        return ["nothing was begun yet"]
    rollouts, every = (_setting(recipe, "cycle", name) for name in ("rollouts", "regenerate_every"))
    if not all(isinstance(value, int) and value > 0 for value in (rollouts, every)):
        raise StoreError(f"{store.path} holds no readable recipe: its [cycle] has no rollouts and regenerate_every")
    done = (store.row("SELECT count(DISTINCT epoch) AS n FROM scores") or {"n": 0})["n"]
    wanted = -(-rollouts // every)
    last = store.row("SELECT max(rollout) AS rollout FROM plays")
    begun = None if last is None else last["rollout"]
    played = "no rollout" if begun is None else f"rollout {begun + 1} of {rollouts}"
    who = (
        f"{part} {_setting(recipe, *names)}"
        for part, names in (
            ("agent", ("models", "agent")),
            ("designer", ("designer", "name")),
            ("trainer", ("trainer", "name")),
        )
    )
    return [
        ", ".join(who),
        "finished" if done == wanted else f"not finished: {played} was begun; the command it was started with goes on",
    ]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lay out a table: the first column to the left, the others to the right."""
    laid = [[_cell(text) for text in row] for row in [head, *rows]]
    widths = [max(len(row[place]) for row in laid) for place in range(len(head))]
    return [
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in laid
    ]


def _cell(text: str) -> str:
    shown = visible(text[: _MAX_CELL + 1], newlines=False)
    return shown if len(shown) <= _MAX_CELL else f"{shown[: _MAX_CELL - 1]}…"


def number(value: float | None, form: str = ".2f") -> str:
    """A number for a table; a dash for what is unknown."""
    return "–" if value is None else format(value, form)


def _funnel(store: RunStore) -> list[str]:
    """How many replies got how far, by epoch, and why the others did not."""
    rows = store.each(
        "SELECT replies.epoch, attempts.key, attempts.outcome, attempts.findings, attempts.manifest "
        "FROM replies JOIN attempts USING (key) ORDER BY replies.epoch, replies.key"
    )
    epochs: dict[int, Counter[str]] = {}
    why: Counter[str] = Counter()
    for row in rows:
        counts = epochs.setdefault(row["epoch"], Counter())
        counts["asked"] += 1
        manifest = row["manifest"] or ""
        counts["parsed"] += bool(manifest)
        counts["repaired"] += "repairs = [\n" in manifest or 'repairs = ["' in manifest
        counts["accepted"] += row["outcome"] == "accepted"
        if row["outcome"] != "accepted":
            failures = store.findings(row).failures
            why[(failures[0].check if failures else row["outcome"] or "no outcome")] += 1
    if not epochs:
        return []
    stages = ("asked", "parsed", "repaired", "accepted")
    lines = table(
        ["epoch", *stages], [[str(epoch), *(str(c[stage]) for stage in stages)] for epoch, c in epochs.items()]
    )
    if why:
        lines.append("refused by: " + ", ".join(f"{check} {count}" for check, count in why.most_common()))
    return lines


def _scores(store: RunStore) -> list[str]:
    """Win rates and regrets of every window."""
    rows = store.rows(
        "SELECT scores.*, programs.name FROM scores JOIN programs USING (digest) ORDER BY epoch, environment"
    )
    cells = [
        [
            f"{row['epoch']}/{row['environment']} {row['name']}", str(row["skill"]),
            f"{row['num_plain']} + {row['num_hinted']}", number(row["win_rate"]),
            f"[{number(row['win_low'])}, {number(row['win_high'])}]", _with_error(row["regret"], row["regret_error"]),
            number(row["reward"]), number(row["advantage"], "+.2f"),
        ]
        for row in rows
    ]  # fmt: skip
    head = ["program", "skill", "plays + hinted", "won", "95 %", "regret", "reward", "advantage"]
    return table(head, cells) if cells else []


def _with_error(value: float | None, error: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:+.2f}" if error is None else f"{value:+.2f} ± {error:.2f}"


def _faults(store: RunStore) -> list[str]:
    """Why plays do not count."""
    rows = store.rows(
        "SELECT status, substr(fault, 1, 160) AS reason, count(*) AS n FROM plays WHERE status != 'ok' "
        "GROUP BY status, reason ORDER BY n DESC LIMIT 8"
    )
    return [f"{row['n']} plays {row['status']}: {row['reason']}" for row in rows]


def _learning(store: RunStore) -> list[str]:
    rows = store.rows(
        "SELECT rollout, arm, count(*) AS plays, sum(status != 'ok') AS faulty, "
        "avg(CASE WHEN status = 'ok' THEN won END) AS win_rate, avg(CASE WHEN status = 'ok' THEN total END) AS total "
        "FROM plays GROUP BY rollout, arm ORDER BY rollout, arm"
    )
    head = ["rollout", "arm", "plays", "faulty", "won", "mean return"]
    cells = [
        [
            str(row["rollout"]),
            str(row["arm"]),
            str(row["plays"]),
            str(row["faulty"]),
            number(row["win_rate"]),
            number(row["total"]),
        ]
        for row in rows[-40:]
    ]  # fmt: skip
    return table(head, cells) if cells else []


def _spent(store: RunStore) -> list[str]:
    """Tokens and seconds, also by accepted program."""

    def total(table_name: str, *columns: str) -> list[float]:
        sums = ", ".join(f"total({column}) AS s{place}" for place, column in enumerate(columns))
        row: dict[str, Any] = store.row(f"SELECT {sums} FROM {table_name}") or {}
        return [row[f"s{place}"] for place in range(len(columns))]

    replies = total("replies", "prompt_tokens", "completion_tokens", "model_seconds")
    hints = total("hints", "prompt_tokens", "completion_tokens", "hint_seconds")
    plays = total("plays", "prompt_tokens", "completion_tokens", "play_seconds")
    checks = total("attempts", "check_seconds")[0]
    accepted = (store.row("SELECT count(*) AS n FROM attempts WHERE outcome = 'accepted'") or {"n": 0})["n"]
    lines = [
        f"designer: {replies[0]:,.0f} tokens read, {replies[1]:,.0f} sampled; checks {checks:,.1f} s",
        f"hints: {hints[0]:,.0f} tokens read, {hints[1]:,.0f} sampled",
        f"agent: {plays[0]:,.0f} tokens read, {plays[1]:,.0f} sampled",
    ]
    if accepted:
        tokens, seconds = (replies[1] + hints[1]) / accepted, (replies[2] + hints[2] + checks) / accepted
        lines.append(f"for each of {accepted} accepted programs: {tokens:,.0f} tokens sampled, {seconds:,.1f} s")
    return lines


def _notes(store: RunStore) -> list[str]:
    rows = store.rows("SELECT * FROM notes ORDER BY rollout, position")
    return [f"rollout {row['rollout']}, {row['kind']}: {row['message']}" for row in rows]
