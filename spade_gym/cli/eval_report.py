"""How an evaluation is printed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from spade_gym.cli.terminal import table, visible, width
from spade_gym.evaluation.estimates import NUM_RESAMPLES, Estimate
from spade_gym.evaluation.evaluate import BASE, MODEL, Evaluation
from spade_gym.evaluation.figures import Figures

_FEW_CLUSTERS = 20
_HEADER = ("", "model", "95 %", "base", "95 %", "model-base", "95 %")


def print_evaluation(found: Evaluation, folder: Path) -> None:
    """Print what was found, and how sure it is."""
    for arm, name in found.names.items():
        origin = found.manifest[arm].get("checkpoint")
        which = (
            f", checkpoint of rollout {origin['rollout']} of {origin['of']} (rule: {origin['rule']})" if origin else ""
        )
        print(visible(f"{arm}: {name['name']}{which}", newlines=False))
    clusters = found.model.avg.num_clusters
    print(visible(f"suite: {found.suite}, {found.num_tasks:,} tasks, {found.k} samples of each", newlines=False))
    print()
    print(table(list(_rows(found)), header=_HEADER[: 3 if found.base is None else None], columns=width()))
    print()
    if len(found.model.groups) > 1:
        print(table(list(_group_rows(found)), header=_group_header(found), columns=width()))
        print()
    print(f"intervals: {NUM_RESAMPLES:,} bootstrap resamples of {clusters:,} {found.clusters}; at 0 and 1, Wilson's")
    if clusters < _FEW_CLUSTERS:
        print(f"  {clusters} are few for that: the intervals are too narrow rather than too wide")
    for arm, figures in ((MODEL, found.model), (BASE, found.base)):
        if figures is not None:
            for line in _notes(arm, figures):
                print(visible(line, newlines=False))
    for arm, (count, reason) in found.missing.items():
        print(visible(f"{arm}: {count:,} samples are missing because the model failed ({reason}); the same command "
                      "asks them again", newlines=False))  # fmt: skip
    print(visible(f"all results: {folder}", newlines=False))


def _rows(found: Evaluation) -> Iterator[list[str]]:
    names = [f"avg@{found.k}", "score", *(f"pass@{k}" for k in found.model.pass_at)]
    columns = [[found.model.avg, found.model.score, *found.model.pass_at.values()]]
    if found.base is not None and found.difference is not None:
        columns.append([found.base.avg, found.base.score, *found.base.pass_at.values()])
        columns.append([found.difference.avg, found.difference.score, *found.difference.pass_at.values()])
    for number, name in enumerate(names):
        cells = [_cells(column[number], signed=place == 2) for place, column in enumerate(columns)]
        yield [name, *(cell for pair in cells for cell in pair)]


def _cells(estimate: Estimate, *, signed: bool) -> tuple[str, str]:
    """Value and interval."""
    form = "{:+.3f}" if signed else "{:.3f}"
    if estimate.value is None:
        return "-", estimate.interval
    if estimate.low is None or estimate.high is None:
        return form.format(estimate.value), f"({estimate.interval})"
    return form.format(estimate.value), f"{form.format(estimate.low)}..{form.format(estimate.high)}"


def _group_header(found: Evaluation) -> list[str]:
    return ["group", "tasks", "avg", "score", *([] if found.base is None else ["base avg", "base score"])]


def _group_rows(found: Evaluation) -> Iterator[list[str]]:
    bases = {} if found.base is None else {group.name: group for group in found.base.groups}
    for group in found.model.groups:
        row = [group.name, str(group.num_tasks), _number(group.avg), _number(group.score)]
        if found.base is not None:
            row += [_number(bases[group.name].avg), _number(bases[group.name].score)]
        yield row


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _notes(arm: str, figures: Figures) -> Iterator[str]:
    ways = ", ".join(f"{way} {count:,}" for way, count in figures.ended.items())
    yield f"{arm}: {ways}; {figures.completion_tokens:,} tokens sampled"
    if figures.num_faulty and figures.avg_bounds is not None:
        low, high = figures.avg_bounds
        yield (
            f"{arm}: {figures.num_faulty:,} samples have no score because a grader or program failed; avg is "
            f"{low:.3f} if they are wrong, {high:.3f} if they are right. First ones:"
        )
        for task, fault in figures.faults:
            yield f"  {task}: {fault}"
