"""Does every episode end within the program's own turn limit? Check ``termination``."""

from __future__ import annotations

from collections.abc import Iterator

from spade_gym.validation import actions
from spade_gym.validation.context import SEEDS, Context
from spade_gym.validation.finding import Finding, failure, warning
from spade_gym.validation.plays import Play, Policy, repeat, script

_NUM_COMMANDS = 6


def check_termination(context: Context) -> Iterator[Finding]:
    """Nonsense, one command for ever, and the solution followed by nonsense all end.

    They must end within ``max_turns`` or 200 steps, whichever is more: what ends later than the constructor's
    ``max_turns`` is noted, for ``reset`` may set a limit that fits the instance. Source: method, section 4, point 5.
    """
    garbage = actions.GARBAGE[0]
    policies: list[tuple[str, Policy]] = [("nonsense", repeat(garbage))]
    policies += [(f"{command} for ever", repeat(command)) for command in context.commands[:_NUM_COMMANDS]]
    lines = context.solution_actions(SEEDS[0])
    if lines:
        policies.append(("the solution, then nonsense", _then_repeat(lines, garbage)))
        policies.append(("the solution's first line for ever", repeat(lines[0])))
    items = [(SEEDS[0], policy) for _, policy in policies]
    plays = context.player().play_many(items, steps=context.longest, origin="probe", batch=8, reuse=True)
    for (what, _), play in zip(policies, plays, strict=True):
        if play.fault is None and not play.ended and not play.spared:
            yield _endless(context, what, play)
            return
    late = max(plays, key=lambda play: len(play.actions))
    if len(late.actions) > context.turn_limit:
        message = f"an episode takes {len(late.actions)} steps, more than max_turns = {context.turn_limit}"
        yield warning("termination", message, seed=late.seed, steps=len(late.actions), max_turns=context.turn_limit)


def _endless(context: Context, what: str, play: Play) -> Finding:
    limit = context.report.max_turns
    stated = f"its own max_turns is {limit}" if limit else "it states no max_turns, and 200 are allowed"
    return failure(
        "termination",
        f"the episode has not ended after {len(play.actions)} steps of {what} ({stated}). Return truncated=True when "
        "the turns are used up, whatever the actions were",
        seed=play.seed, steps=len(play.actions), max_turns=limit, played=what, last_actions=play.actions[-3:],
    )  # fmt: skip


def _then_repeat(lines: list[str], action: str) -> Policy:
    scripted = script(lines)
    return lambda play: scripted(play) or action
