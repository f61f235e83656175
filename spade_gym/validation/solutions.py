"""Does the program's own solution win? Check ``solution``."""

from __future__ import annotations

from collections.abc import Iterator

from spade_gym.errors import ProgramFault
from spade_gym.types import WIN_THRESHOLD
from spade_gym.validation.context import SEEDS, Context
from spade_gym.validation.finding import Finding, failure, warning
from spade_gym.validation.plays import Play, script

#: What goes wrong on one instance in ten is seldom seen on five.
_MORE_SEEDS = range(5, 12)


def check_solution(context: Context) -> Iterator[Finding]:
    """``solution()`` wins on the seeds 0–4, played line by line after a reset; a missing one is noted.

    On a few more seeds it must not raise, and not lose more than once; one loss is noted.
    A win is a terminated play with a return of at least 0.999. Source: method, sections 3, 4 and 6.
    """
    if not context.report.has_solution:
        yield warning("solution", "missing_solution: there is no solution(), so winning was not shown by the program")
        return
    seeds = [*SEEDS, *_MORE_SEEDS]
    for seed in seeds:
        problem = _problem_with_text(context, seed)
        if problem is not None:
            yield problem
            return
    items = [(seed, script(context.solution_actions(seed))) for seed in seeds]
    plays = context.player().play_many(items, steps=context.longest, origin="solution", reuse=True)
    lost = [play for play in plays if not play.won]
    if lost:
        make = warning if len(lost) == 1 and lost[0].seed in _MORE_SEEDS else failure
        yield make(
            "solution",
            f"solution() does not win on {len(lost)} of {len(seeds)} seeds; seed {lost[0].seed}: {_outcome(lost[0])}",
            seeds=[play.seed for play in lost], returned=lost[0].total, **lost[0].evidence(),
        )  # fmt: skip
        return
    unused = [play for play in plays if len(play.actions) < len(context.solution_actions(play.seed))]
    if unused:
        seed = unused[0].seed
        message = f"on seed {seed} the episode ends before the last line of solution()"
        yield warning("solution", message, seed=seed, lines=context.solution_actions(seed), used=len(unused[0].actions))


def _problem_with_text(context: Context, seed: int) -> Finding | None:
    try:
        text = context.solution_text(seed)
    except ProgramFault as fault:
        return failure("solution", f"solution() fails on seed {seed}: {fault}", seed=seed, fault=str(fault))
    if text is None or not text.strip():
        return failure("solution", f"solution() returns nothing on seed {seed}", seed=seed, text=text)
    return None


def _outcome(play: Play) -> str:
    if play.fault is not None:
        return f"the program fails: {play.fault}"
    if not play.ended:
        return f"the episode does not end; the return is {play.total:g}"
    if not play.transitions[-1].terminated:
        return f"the episode is truncated with a return of {play.total:g}"
    return f"the return is {play.total:g}, less than {WIN_THRESHOLD}"
