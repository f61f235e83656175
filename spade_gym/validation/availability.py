"""Does every action get an answer? Check ``availability``."""

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
#: Errors in these plays are another check's business, or only noted; kills never are.
_JUDGED_ELSEWHERE = ("solution", "wrong_type", "exotic")
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
    # Each probe alone on a fresh instance, the seeds taking turns. One that hangs is told soonest when it is alone.
    for huge, batch in ((True, 1), (False, _BATCH)):
        alone = [probe for probe in probes if actions.is_huge(probe) is huge]
        items = [(SEEDS[i % len(SEEDS)], script([probe])) for i, probe in enumerate(alone)]
        player.play_many(items, steps=1, origin="probe", batch=batch, reuse=True)
    # Probes between the moves of a solution, and long mixtures of everything.
    player.play_many(_staged(context, probes), steps=context.steps, origin="probe", batch=_BATCH, reuse=True)
    mixed = [(seed, mixture([*probes, *context.commands * 3], seed)) for seed in range(_NUM_MIXED_PLAYS)]
    player.play_many(mixed, steps=context.steps, origin="probe", batch=_BATCH, reuse=True)
    yield from faults_in(context.plays)
    yield from _note_exotic_faults(context)
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
        if play.fault is None or is_reward_fault(play.fault):
            continue
        if play.origin in _JUDGED_ELSEWHERE and play.fault.reason == "error":
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


def _note_exotic_faults(context: Context) -> Iterator[Finding]:
    items = [(SEEDS[0], script([text])) for text in actions.EXOTIC_TEXTS]
    plays = context.player().play_many(items, steps=1, origin="exotic", batch=_BATCH, reuse=True)
    failed = [play for play in plays if play.fault is not None]
    if failed:
        message = f"the program fails on {len(failed)} exotic actions, for example: {failed[0].fault}"
        yield warning("availability", message, count=len(failed), **failed[0].evidence())
    yield from (finding for finding in faults_in(plays) if finding.evidence.get("reason") != "error")


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
