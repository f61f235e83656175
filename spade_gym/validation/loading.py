"""Does the program run at all? Checks ``load`` and ``smoke``."""

from __future__ import annotations

from collections.abc import Iterator

from spade_gym.errors import ProgramFault
from spade_gym.validation import actions
from spade_gym.validation.context import SEEDS, Context
from spade_gym.validation.finding import Finding, failure, warning
from spade_gym.validation.plays import script

_PLAY_SEED = 42
_RESET_SEED = 123


def check_load(context: Context) -> Iterator[Finding]:
    """The module runs, and its class can be constructed."""
    try:
        report = context.report
    except ProgramFault as fault:
        context.is_playable = False
        yield failure("load", f"the program cannot be loaded: {fault}", fault=str(fault), reason=fault.reason)
        return
    if report.max_turns is not None and report.max_turns > context.limits.turns:
        yield warning(
            "load",
            f"max_turns is {report.max_turns}, but the sandbox truncates after {context.limits.turns} steps",
            max_turns=report.max_turns,
        )


def check_smoke(context: Context) -> Iterator[Finding]:
    """``reset(seed=42)``, three probe actions, ``reset(seed=123)``; all results have the right types.

    The seeds 0–4, which the other checks play, must be playable too.
    Source: method, section 4, point 2. Of the probes, one is an announced command where there is one:
    nonsense alone ends many programs at once and then tests a single step.
    """
    if not context.is_playable:
        return
    player = context.player()
    first = player.play(_PLAY_SEED, script([]), steps=0, origin="probe")
    if first.fault is not None:
        context.is_playable = False
        yield failure("smoke", f"reset(seed={_PLAY_SEED}) fails: {first.fault}", **first.evidence())
        return
    starts = player.play_many([(seed, script([])) for seed in SEEDS], steps=0, origin="probe", reuse=True)
    broken = next((play for play in starts if play.fault is not None), None)
    if broken is not None:
        context.is_playable = False
        yield failure("smoke", f"reset(seed={broken.seed}) fails: {broken.fault}", **broken.evidence())
        return
    move = actions.announced([first.observation]).commands[:1]
    probes = [*(actions.boxed(text) for text in move), *actions.GARBAGE, actions.boxed("1")]
    play = player.play(_PLAY_SEED, script(probes[:3]), steps=3, origin="probe")
    if play.fault is not None:
        yield failure("smoke", f"a probe action fails: {play.fault}", **play.evidence())
    again = player.play(_RESET_SEED, script([]), steps=0, origin="probe")
    if again.fault is not None:
        yield failure("smoke", f"reset(seed={_RESET_SEED}) fails: {again.fault}", **again.evidence())
    elif not again.observation.strip():
        yield failure("smoke", "the first observation is empty", seed=_RESET_SEED)
