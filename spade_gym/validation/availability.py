"""Does every action get an answer? (check ``availability``)"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from spade_gym.errors import ProgramFault
from spade_gym.validation import actions
from spade_gym.validation.context import SEEDS, Context
from spade_gym.validation.finding import Finding, failure, warning
from spade_gym.validation.plays import Play, Policy, script
from spade_gym.validation.rewards import is_reward_fault

_MAX_REPORTED = 3
_NUM_MIXED_PLAYS = 6
_NUM_STAGES = 12
#: Small, because each hanging action costs a whole deadline.
_BATCH = 8


def check_availability(context: Context) -> Iterator[Finding]:
    """No announced command, variant of one, or nonsense makes the program fail, at any stage of an episode.

    Source: method, section 4, point 5: announced commands, also with their numbers replaced by 0, 1, −1 and 10⁹.
    Faults in the plays of other checks count too, except those of wrong-typed tool arguments.
    """
    probes = context.probes
    player = context.player()
    # Each probe alone on a fresh instance, the seeds taking turns.
    items = [(SEEDS[i % len(SEEDS)], script([probe])) for i, probe in enumerate(probes)]
    player.play_many(items, steps=1, origin="probe", batch=_BATCH, reuse=True)
    # Probes between the moves of a solution, and long mixtures of everything.
    player.play_many(_staged(context, probes), steps=context.steps, origin="probe", batch=_BATCH, reuse=True)
    mixed = [(seed, mixture([*probes, *context.commands * 3], seed)) for seed in range(_NUM_MIXED_PLAYS)]
    player.play_many(mixed, steps=context.steps, origin="probe", batch=_BATCH, reuse=True)
    yield from faults_in(context.plays)
    yield from _step_after_end(context)


def _staged(context: Context, probes: list[str]) -> list[tuple[int, Policy]]:
    """Plays that follow the solution for a while and then try a few probes."""
    lines = context.solution_actions(SEEDS[1])
    stages = range(1, len(lines), max(1, len(lines) // _NUM_STAGES))
    chosen = [[*lines[:stage], *probes[i % len(probes) :][:3]] for i, stage in enumerate(stages)]
    return [(SEEDS[1], script(moves)) for moves in chosen]


def mixture(moves: list[str], seed: int) -> Policy:
    """Draw uniformly from a fixed list of moves."""
    rng = np.random.default_rng([seed, 20_260_802])
    return lambda play: moves[int(rng.integers(len(moves)))]


def faults_in(plays: list[Play]) -> Iterator[Finding]:
    """One failure for each distinct fault, with the action that caused it; at most three."""
    seen: dict[str, None] = {}
    for play in plays:
        if play.fault is None or play.origin in ("solution", "wrong_type") or is_reward_fault(play.fault):
            continue
        text = str(play.fault)
        if text in seen:
            continue
        seen[text] = None
        if len(seen) > _MAX_REPORTED:
            return
        where = f"after the action {play.actions[-1][:80]!r}" if play.actions else f"at reset(seed={play.seed})"
        message = f"the program fails {where}: {text}"
        yield failure("availability", message, reason=play.fault.reason, **play.evidence())


def _step_after_end(context: Context) -> Iterator[Finding]:
    """Players do not act after the end, so a program that fails there is only noted."""
    ended = next((play for play in context.plays if play.ended and play.fault is None), None)
    if ended is None:
        return
    session = context.session()
    slot = session.open()
    try:
        session.reset(slot, ended.seed)
        for action in ended.actions:
            session.step(slot, action)
        session.step(slot, ended.actions[-1] if ended.actions else actions.GARBAGE[0])
    except ProgramFault as fault:
        yield warning("availability", f"a step after the end of the episode fails: {fault}", **ended.evidence())
    finally:
        session.close_slot(slot)
