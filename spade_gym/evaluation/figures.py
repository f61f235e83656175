"""From results to figures: avg@k and pass@k of a model, and how much better it is than the base."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from spade_gym.evaluation.estimates import Estimate, mean_over_tasks, pass_at_k
from spade_gym.evaluation.suite import Result, Task

_MOST_FAULTS = 5


@dataclass(frozen=True, slots=True)
class Group:
    """The tasks of one program, data set or category.

    Attributes:
        name: The group's.
        avg: avg@k of its tasks; ``None`` where nothing was graded.
        score: Mean score of its tasks.
        num_tasks: Tasks with a graded answer.
    """

    name: str
    avg: float | None
    score: float | None
    num_tasks: int


@dataclass(frozen=True, slots=True)
class Figures:
    """What a model reached.

    Attributes:
        avg: avg@k: mean over tasks of the share of samples that solved it.
        avg_bounds: avg@k if every sample without a score were wrong, and if every one were right; equal to ``avg``
            where there is none; ``None`` where nothing was asked.
        score: Mean over tasks of the mean score (partial credit, or the return of a play).
        pass_at: pass@k by k, each over the tasks with at least k scores.
        groups: In the order of the suite.
        num_results: Samples with a result.
        num_faulty: How many of them have no score because a grader or program failed.
        faults: Some of them: task and what failed.
        ended: How samples ended, with counts.
        prompt_tokens: Tokens read.
        completion_tokens: Tokens sampled.
    """

    avg: Estimate
    avg_bounds: tuple[float, float] | None
    score: Estimate
    pass_at: dict[int, Estimate]
    groups: tuple[Group, ...]
    num_results: int
    num_faulty: int
    faults: tuple[tuple[str, str], ...]
    ended: dict[str, int]
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """The model minus the base, on the samples of the same task and number that both have scores for.

    Attributes:
        avg: Difference of avg@k, in [-1, 1].
        score: Difference of the mean scores.
        pass_at: Difference of pass@k by k, over the tasks with at least k such pairs.
        num_pairs: Samples that entered.
        num_dropped: Samples left out because one of the two has no score.
    """

    avg: Estimate
    score: Estimate
    pass_at: dict[int, Estimate]
    num_pairs: int
    num_dropped: int


def figures(tasks: Sequence[Task], results: Iterable[Result], ks: Sequence[int]) -> Figures:
    """Return what a model reached.

    A sample without a score (a fault of a grader or program) is no zero: it is left out and counted.

    Args:
        tasks: Of the suite.
        results: Of one model.
        ks: For which pass@k is wanted.
    """
    rows = sorted(results, key=lambda result: (result.task, result.sample))
    scored = _by_task(row for row in rows if row.score is not None)
    ended: dict[str, int] = {}
    for row in rows:
        ended[row.ended] = ended.get(row.ended, 0) + 1
    faulty = [row for row in rows if row.score is None]
    return Figures(
        avg=_mean(tasks, {task: _share(found) for task, found in scored.items()}),
        avg_bounds=_bounds(_by_task(rows)),
        score=_mean(tasks, {task: _mean_score(found) for task, found in scored.items()}, is_share=False),
        pass_at={k: _mean(tasks, _passes(scored, k)) for k in ks},
        groups=_groups(tasks, scored),
        num_results=len(rows),
        num_faulty=len(faulty),
        faults=tuple((tasks[row.task].name, row.note) for row in faulty[:_MOST_FAULTS]),
        ended=dict(sorted(ended.items())),
        prompt_tokens=sum(row.prompt_tokens for row in rows),
        completion_tokens=sum(row.completion_tokens for row in rows),
    )


def comparison(
    tasks: Sequence[Task], results: Iterable[Result], baseline: Iterable[Result], ks: Sequence[int]
) -> Comparison:
    """Return the paired difference of two models on the same tasks and seeds.

    Of a sample that one of them has no score for, the other's is left out too: otherwise the one that fails more often
    would be judged by its easier tasks.

    Args:
        tasks: Of the suite.
        results: Of the model.
        baseline: Of the base.
        ks: For which pass@k is wanted.
    """
    ours = {(row.task, row.sample): row for row in results}
    theirs = {(row.task, row.sample): row for row in baseline}
    both = sorted(ours.keys() & theirs.keys())
    kept = [key for key in both if ours[key].score is not None and theirs[key].score is not None]
    left, right = _by_task(ours[key] for key in kept), _by_task(theirs[key] for key in kept)
    return Comparison(
        avg=_mean(tasks, {task: _share(left[task]) - _share(right[task]) for task in left}, is_share=False),
        score=_mean(tasks, {task: _mean_score(left[task]) - _mean_score(right[task]) for task in left}, is_share=False),
        pass_at={k: _pass_difference(tasks, left, right, k) for k in ks},
        num_pairs=len(kept),
        num_dropped=len(ours.keys() | theirs.keys()) - len(kept),
    )


def _by_task(rows: Iterable[Result]) -> dict[int, list[Result]]:
    found: dict[int, list[Result]] = {}
    for row in rows:
        found.setdefault(row.task, []).append(row)
    return found


def _mean(tasks: Sequence[Task], values: Mapping[int, float], *, is_share: bool = True) -> Estimate:
    order = sorted(values)
    return mean_over_tasks([values[task] for task in order], [tasks[task].cluster for task in order], is_share=is_share)


def _share(rows: Sequence[Result]) -> float:
    return sum(row.right for row in rows) / len(rows)


def _mean_score(rows: Sequence[Result]) -> float:
    return float(np.mean([row.score for row in rows if row.score is not None]))


def _passes(scored: Mapping[int, Sequence[Result]], k: int) -> dict[int, float]:
    """pass@k of each task with enough scores."""
    return {
        task: pass_at_k(len(rows), sum(row.right for row in rows), k) for task, rows in scored.items() if len(rows) >= k
    }


def _pass_difference(
    tasks: Sequence[Task], left: Mapping[int, Sequence[Result]], right: Mapping[int, Sequence[Result]], k: int
) -> Estimate:
    ours, theirs = _passes(left, k), _passes(right, k)
    return _mean(tasks, {task: ours[task] - theirs[task] for task in ours}, is_share=False)


def _bounds(rows: Mapping[int, Sequence[Result]]) -> tuple[float, float] | None:
    """avg@k with all samples that have no score as wrong, and as right."""
    if not rows:
        return None
    low = [_share(found) for found in rows.values()]
    high = [sum(row.right or row.score is None for row in found) / len(found) for found in rows.values()]
    return float(np.mean(low)), float(np.mean(high))


def _groups(tasks: Sequence[Task], scored: Mapping[int, Sequence[Result]]) -> tuple[Group, ...]:
    places: dict[str, list[int]] = {}
    for number, task in enumerate(tasks):
        places.setdefault(task.group, []).append(number)
    found = []
    for name, numbers in places.items():
        rows = [scored[number] for number in numbers if number in scored]
        avg = float(np.mean([_share(row) for row in rows])) if rows else None
        score = float(np.mean([_mean_score(row) for row in rows])) if rows else None
        found.append(Group(name, avg, score, len(rows)))
    return tuple(found)
