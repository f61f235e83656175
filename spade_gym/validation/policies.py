"""Policies that need no thought; a program that one of them wins teaches nothing. Check ``trivial_policy``."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from spade_gym.validation import actions
from spade_gym.validation.context import Context
from spade_gym.validation.finding import Finding, failure, warning
from spade_gym.validation.plays import Play, Policy, repeat
from spade_gym.validation.rewards import random_moves

#: Seeds on which trivial policies are judged (method, section 4, point 5).
TRIVIAL_SEEDS = range(40)
#: Largest share of wins of a policy that only uses what is announced, or nothing at all.
MAX_WIN_SHARE = 0.15
#: Largest share for a constant that is one answer among many unannounced ones: an example of the form of an
#: answer ("like \boxed{Arlo}" with four suspects), or the commonest answer. Chance alone may give it a quarter.
MAX_ANSWER_SHARE = 0.5
#: Among dozens of policies some win more often than they deserve; one that seems to is tried on these as well.
_CONFIRMING_SEEDS = range(40, 120)
#: A policy that wins none of so many first seeds is not tried on the others: it hardly wins more than 15 % of all.
#: What wins a quarter is missed one time in ten.
_STAGES = (0, 8, 20, 40)
#: Tool-use programs have at most five instructions, and a constant action completes one at most each time.
_TOOL_USE_STEPS = 8
_NUMBERS = ("1", "0", "2")
_CONSTANTS = (*_NUMBERS, "yes", "no", "A")
#: From so many different one-line solutions on, a number is one answer among many.
_MANY_ANSWERS = 4
_SEEDS_FOR_COMMONEST = range(12)
_NOTABLE_MEAN = 0.25
#: Ordinary programs need a second. One whose steps think long (an opponent that searches) is not tried on everything.
_MAX_SECONDS = 10.0


class TrivialPolicy(NamedTuple):
    """A policy with its name and the share of plays that it may win.

    Attributes:
        name: What it does.
        policy: How it plays.
        max_win_share: From 0 to 1.
        judged: Whether winning more rejects the program, or is only noted.
    """

    name: str
    policy: Policy
    max_win_share: float = MAX_WIN_SHARE
    judged: bool = True


def trivial_policies(context: Context) -> Iterator[TrivialPolicy]:
    """Empty, nonsense, echo, constants, each announced command, examples, the commonest answer, and chance."""
    yield TrivialPolicy("the empty action", repeat(""))
    yield TrivialPolicy("nonsense", repeat(actions.GARBAGE[1]))
    if not context.is_tool_use:
        yield TrivialPolicy("the empty box", repeat("\\boxed{}"))
        yield TrivialPolicy("nonsense in a box", repeat(actions.GARBAGE[0]))
        yield TrivialPolicy("echo of the observation in a box", _boxed_echo)
        many = len(set(_one_line_solutions(context))) >= _MANY_ANSWERS
        for text in _CONSTANTS:
            share = MAX_ANSWER_SHARE if many and text in _NUMBERS else MAX_WIN_SHARE
            yield TrivialPolicy(f"always {text!r}", repeat(actions.boxed(text)), share)
        for text in context.announcement.examples[:4]:
            yield TrivialPolicy(f"always the example {text!r}", repeat(actions.boxed(text)), MAX_ANSWER_SHARE)
        commonest = _commonest_answer(context)
        if commonest:
            yield TrivialPolicy(f"always {commonest!r}", repeat(commonest), MAX_ANSWER_SHARE)
    yield TrivialPolicy("echo of the observation", lambda play: play.observation[:20_000], MAX_ANSWER_SHARE)
    for command in context.commands:
        # Only an answer ends a tool-use episode, so each call comes with one.
        ending = "\n<answer>done</answer>" if context.is_tool_use and "<answer>" not in command else ""
        yield TrivialPolicy(f"always {command!r}", repeat(command + ending))


def _boxed_echo(play: Play) -> str:
    text = "".join(" " if character in "{}\\" else character for character in play.observation[:20_000])
    return actions.boxed(text)


def _commonest_answer(context: Context) -> str:
    """The most frequent one-line solution, where there is one."""
    single = _one_line_solutions(context)
    return Counter(single).most_common(1)[0][0] if single else ""


def _one_line_solutions(context: Context) -> list[str]:
    lines = [context.solution_actions(seed) for seed in _SEEDS_FOR_COMMONEST]
    return [line[0] for line in lines if len(line) == 1]


def check_trivial_policy(context: Context) -> Iterator[Finding]:
    """No trivial policy wins more than 15 % of 40 seeds; a random one over the announced commands is reported.

    Source: method, section 4, point 5.
    """
    policies = list({item.name: item for item in trivial_policies(context)}.values())
    if context.commands:
        chance = "chance among the announced commands"
        policies.append(TrivialPolicy(chance, lambda play: None, judged=False))
    best_mean, best_name = 0.0, ""
    begin = time.monotonic()
    for number, item in enumerate(policies):
        if time.monotonic() - begin > _MAX_SECONDS:
            message = (
                f"only {number} of {len(policies)} trivial policies were tried, because the program's steps are slow"
            )
            yield warning("trivial_policy", message, tried=number, policies=len(policies))
            break
        plays = _play_on_all_seeds(context, item)
        wins = [play.seed for play in plays if play.won]
        mean = sum(play.total for play in plays) / len(plays)
        if mean > best_mean:
            best_mean, best_name = mean, item.name
        if len(wins) > item.max_win_share * len(plays) and _is_confirmed(context, item):
            yield _won_too_often(item, plays, wins)
            if item.judged:
                return
    if best_mean >= _NOTABLE_MEAN:
        message = f"the best trivial policy ({best_name}) has a mean return of {best_mean:.2f}"
        yield warning("trivial_policy", message, policy=best_name, mean_return=round(best_mean, 4))


def _play_on_all_seeds(context: Context, item: TrivialPolicy) -> list[Play]:
    plays: list[Play] = []
    for start, stop in itertools.pairwise(_STAGES):
        plays += _play_on(context, item, TRIVIAL_SEEDS[start:stop])
        if not any(play.won for play in plays):
            break
    return plays


def _is_confirmed(context: Context, item: TrivialPolicy) -> bool:
    """It wins as often on seeds on which it was not chosen."""
    plays = _play_on(context, item, _CONFIRMING_SEEDS)
    return sum(play.won for play in plays) > item.max_win_share * len(plays)


def _play_on(context: Context, item: TrivialPolicy, seeds: Iterable[int]) -> list[Play]:
    steps = min(context.steps, _TOOL_USE_STEPS) if context.is_tool_use else context.steps
    if item.judged:
        items = [(seed, item.policy) for seed in seeds]
    else:
        items = [(seed, random_moves(context.commands, seed)) for seed in seeds]
    origin = "trivial" if item.judged else "random"
    return context.player().play_many(items, steps=steps, origin=origin, reuse=True)


def _won_too_often(item: TrivialPolicy, plays: list[Play], wins: list[int]) -> Finding:
    won = next(play for play in plays if play.won)
    make = failure if item.judged else warning
    return make(
        "trivial_policy",
        f"{item.name} wins {len(wins)} of {len(plays)} seeds, more than {item.max_win_share:.0%}",
        policy=item.name, wins=len(wins), of=len(plays), seeds=wins, actions=won.actions[:5],
    )  # fmt: skip
