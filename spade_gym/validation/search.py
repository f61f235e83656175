"""Can anything be earned by the announced commands? Check ``unwinnable``.

Only asked where there is no ``solution()`` to show it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from spade_gym.errors import ProgramFault
from spade_gym.sandbox.session import Session, Snapshot
from spade_gym.validation.context import Context
from spade_gym.validation.finding import Finding, failure, warning
from spade_gym.validation.plays import Policy, repeat, script
from spade_gym.validation.rewards import random_moves

_SEEDS = (0, 1, 2)
_NUM_RANDOM_PLAYS = 40
_AT_ONCE = 8
#: After so long the search by chance is given up, and so is an exhaustive one.
_MAX_SECONDS = 10.0
#: Steps of one seed's exhaustive search, and states of one depth, before it is given up.
_MAX_STEPS = 3_000
_MAX_STATES = 120


class Exhaustion(NamedTuple):
    """What an exhaustive search over the announced commands found.

    Attributes:
        complete: Every state that the commands can reach was seen.
        num_steps: Steps tried.
        num_states: Distinct states seen, counted once for each depth.
        earned: Actions that earned a reward first; ``None`` where nothing did.
    """

    complete: bool
    num_steps: int
    num_states: int
    earned: tuple[str, ...] | None


def check_unwinnable(context: Context) -> Iterator[Finding]:
    """Without a solution: some play of the announced commands earns something, and one wins.

    Rejects only when the commands are a finite set and every reachable state was tried without any reward.
    Source: method, section 4, point 5.
    """
    if context.is_tool_use or context.report.has_solution:
        return
    if not context.commands:
        yield warning("unwinnable", "no_win_found: no commands are announced, so none could be tried")
        return
    begin = time.monotonic()
    for seed in _SEEDS:
        for policies in _policies(context, seed):
            items = [(seed, policy) for policy in policies]
            context.player().play_many(items, steps=context.steps, origin="search", reuse=True)
            if any(play.won for play in context.plays):
                return
            if time.monotonic() - begin > _MAX_SECONDS:
                break
    best = max(context.plays, key=lambda play: play.total)
    if best.total > 0:
        message = f"no_win_found: of {len(context.plays)} plays, the best returns {best.total:g} and none wins"
        yield warning("unwinnable", message, plays=len(context.plays), returned=best.total, **best.evidence())
        return
    yield from _judge_nothing_earned(context)


def _policies(context: Context, seed: int) -> Iterator[list[Policy]]:
    """Each command once and for ever, then chance, a few plays at a time."""
    commands = context.commands
    yield [script([command]) for command in commands]
    yield [repeat(command) for command in commands]
    for start in range(0, _NUM_RANDOM_PLAYS, _AT_ONCE):
        numbers = range(1_000 * seed + start, 1_000 * seed + start + _AT_ONCE)
        yield [random_moves(commands, number) for number in numbers]


def _judge_nothing_earned(context: Context) -> Iterator[Finding]:
    commands = list(context.commands)
    found: list[Exhaustion] = []
    for seed in _SEEDS if context.announcement.finite else ():
        result = exhaust(context.session(), commands, seed, context.steps)
        if result.earned is not None:
            play = context.player().play(seed, script(result.earned), steps=context.steps, origin="search")
            if not play.won:
                yield warning("unwinnable", "no_win_found: only a part can be earned as far as seen", **play.evidence())
            return
        if not result.complete:
            break
        found.append(result)
    if len(found) < len(_SEEDS):
        message = f"no reward found in {len(context.plays)} plays; the announced commands could not be exhausted"
        yield warning("unwinnable", message, plays=len(context.plays), commands=commands)
        return
    steps, states = sum(result.num_steps for result in found), sum(result.num_states for result in found)
    yield failure(
        "unwinnable",
        f"nothing can be earned: all {len(commands)} announced commands were tried in all {states} states that they "
        "reach, without any reward. Perhaps step does not recognise what the observation announces",
        seeds=list(_SEEDS), commands=commands, steps=steps, states=states,
    )  # fmt: skip


def exhaust(session: Session, commands: Sequence[str], seed: int, depth: int) -> Exhaustion:
    """Try every command in every distinct state, depth by depth, until a reward turns up or all is seen.

    States are told apart by a fingerprint of everything that the instance holds, turn counters included, so only
    states of one depth are ever taken for the same.

    Args:
        session: The program.
        commands: Actions to try.
        seed: Seed of the instance.
        depth: Longest play.
    """
    slot = session.open()
    begin = time.monotonic()
    try:
        session.reset(slot, seed)
        layer: list[tuple[tuple[str, ...], Snapshot]] = [((), session.snapshot(slot))]
        num_steps, num_states = 0, 1
        for _ in range(depth):
            following: dict[str, tuple[tuple[str, ...], Snapshot]] = {}
            for path, snapshot in layer:
                for command in commands:
                    session.restore(slot, snapshot)
                    outcome = session.step(slot, command)
                    num_steps += 1
                    moves = (*path, command)
                    if outcome.reward > 0:
                        return Exhaustion(False, num_steps, num_states, moves)
                    if outcome.terminated or outcome.truncated:
                        continue
                    state = session.fingerprint(slot)
                    slow = time.monotonic() - begin > _MAX_SECONDS
                    if slow or state is None or num_steps >= _MAX_STEPS or len(following) >= _MAX_STATES:
                        return Exhaustion(False, num_steps, num_states, None)
                    if state not in following:
                        following[state] = (moves, session.snapshot(slot))
            num_states += len(following)
            layer = list(following.values())
            if not layer:
                return Exhaustion(True, num_steps, num_states, None)
        return Exhaustion(False, num_steps, num_states, None)
    except ProgramFault:
        return Exhaustion(False, 0, 0, None)  # the check of availability reports it
    finally:
        session.close_slot(slot)
