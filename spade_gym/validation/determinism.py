"""Does the same seed give the same episode, in any world and next to other episodes?

Checks ``determinism`` and ``shared_state``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from spade_gym.errors import ProgramFault
from spade_gym.sandbox.base import World
from spade_gym.validation import actions
from spade_gym.validation.context import SEEDS, Context
from spade_gym.validation.criteria import criteria_at_reset
from spade_gym.validation.finding import Finding, failure, warning
from spade_gym.validation.plays import Play, script

#: Differs from the default world in every source of chance and time.
OTHER_WORLD = World(hash_seed=4242, clock=1_234_567_890.5, entropy=7, random_state=99)
#: Here instances share their module, as they would in a trainer's own process.
ONE_NAMESPACE = World(one_namespace=True)
#: A rare or binary draw may come out alike on five seeds; nonsense is cheap, so it is played on more.
_MORE_SEEDS = range(5, 16)
_NUM_PROBES = 10


def check_determinism(context: Context) -> Iterator[Finding]:
    """Each seed gives the same transcript in two worlds that share nothing but the program.

    Played are the lines of ``solution()`` of either world, and commands mixed with nonsense. A ``solution()`` that
    takes another way in the other world is only noted where all plays agree: players never see it.
    Source: method, section 4, point 5.
    """
    elsewhere = {seed: _solution_elsewhere(context, seed) for seed in SEEDS}
    different = [seed for seed, text in elsewhere.items() if text is not None]
    scripts = [(seed, moves) for seed in SEEDS for moves in _scripts(context, seed)]
    scripts += [(seed, context.as_actions(elsewhere[seed] or "")) for seed in different]
    scripts += [(seed, _probes(context, shift=seed)) for seed in _MORE_SEEDS]
    items = [(seed, script(moves)) for seed, moves in scripts]
    here = context.player().play_many(items, steps=context.steps, origin="solution", reuse=True)
    there = context.player(OTHER_WORLD).play_many(items, steps=context.steps, origin="solution", reuse=True)
    for one, other in zip(here, there, strict=True):
        found = first_difference(one, other)
        if found is not None:
            step, values = found
            yield failure(
                "determinism",
                f"seed {one.seed} plays differently when hash seed, clock, entropy and the global random state "
                f"change: step {step} gives two results. Draw everything from random.Random(seed) in reset",
                seed=one.seed, step=step, actions=one.actions[:step], values=values,
            )  # fmt: skip
            return
    yield from _judge_solutions(context, {seed: elsewhere[seed] or "" for seed in different}, there)
    yield from _note_useless_seed(context, here)


def _solution_elsewhere(context: Context, seed: int) -> str | None:
    """What ``solution()`` says in the other world, where it says something else there; a fault says nothing."""
    if not context.report.has_solution:
        return None
    try:
        here = context.solution_text(seed)
    except ProgramFault:
        return None  # the check of the solution reports it
    try:
        there = context.solution_text(seed, OTHER_WORLD) or ""
    except ProgramFault:
        return ""
    return None if there == here else there


def _judge_solutions(context: Context, different: Mapping[int, str], there: Sequence[Play]) -> Iterator[Finding]:
    """Solutions that differ between the worlds must both win."""
    for seed, text in different.items():
        values = [context.solution_text(seed), text]
        lines = context.as_actions(text)
        if not any(play.won for play in there if play.seed == seed and lines[: len(play.actions)] == play.actions):
            yield failure(
                "determinism",
                f"solution() of seed {seed} differs when hash seed, clock, entropy and the global random state change, "
                "and wins in one of two worlds only. Draw everything from random.Random(seed) in reset",
                seed=seed, step="solution", values=values,
            )  # fmt: skip
            return
    for seed in list(different)[:1]:
        message = "solution() differs between worlds (set order, or chance of its own), though all plays are the same"
        yield warning("determinism", message, seed=seed, values=[context.solution_text(seed), different[seed]])


def _scripts(context: Context, seed: int) -> list[list[str]]:
    """The solution, and commands from its beginning or from what is announced, mixed with nonsense."""
    lines = context.solution_actions(seed)
    moves = [*_probes(context, shift=0), *lines[:2]]
    return [lines, moves] if lines else [moves]


def _probes(context: Context, shift: int) -> list[str]:
    """Nonsense and announced commands; another ``shift`` begins with another command."""
    start = shift % max(1, len(context.commands))
    commands = [*context.commands[start:], *context.commands[:start]][:_NUM_PROBES]
    return [*actions.GARBAGE[: 1 + shift % 2], *commands, *actions.GARBAGE[1:3]]


def transcript(play: Play) -> list[Any]:
    """What a player saw: observation, reward and flags of every step, and the fault at the end."""
    seen: list[Any] = [[t.observation, t.reward, t.terminated, t.truncated] for t in play.transitions]
    return seen if play.fault is None else [*seen, str(play.fault)]


def first_difference(one: Play, other: Play) -> tuple[int, list[Any]] | None:
    """First step (0: the reset) at which two plays differ, with both results; ``None`` if they agree."""
    if any(play.killed or play.spared for play in (one, other)):
        return None  # another check's business
    left, right = transcript(one), transcript(other)
    for step in range(max(len(left), len(right))):
        pair = [left[step] if step < len(left) else None, right[step] if step < len(right) else None]
        if pair[0] != pair[1]:
            return step, pair
    return None


def _note_useless_seed(context: Context, plays: list[Play]) -> Iterator[Finding]:
    """All seeds alike, in what is seen and in what solves them, means that the seed is ignored."""
    by_seed = {seed: [transcript(play) for play in plays if play.seed == seed] for seed in SEEDS}
    alike = [seed for seed in SEEDS if by_seed[seed] == by_seed[SEEDS[0]]]
    if len(alike) == len(SEEDS):
        yield warning(
            "determinism",
            "no effect of the seed was seen: the plays of this check are alike on all seeds",
            seeds=list(SEEDS),
        )


def check_shared_state(context: Context) -> Iterator[Finding]:
    """Instances side by side in one namespace behave as each does alone, and so does a second reset of an instance.

    Source: method, section 4, point 5.
    """
    moves = [_scripts(context, seed) for seed in SEEDS[:2]]
    items = [(seed, script(lines)) for seed, scripts in zip(SEEDS, moves, strict=False) for lines in scripts]
    player, shared = context.player(), context.player(ONE_NAMESPACE)
    alone = [player.play(seed, policy, steps=context.steps, origin="solution") for seed, policy in items]
    rounds = [shared.play_many(items, steps=context.steps, origin="solution") for _ in range(2)]
    yield from _shared_criteria(context)
    for how, plays in zip(("side by side with another", "after a second reset"), rounds, strict=True):
        for one, other in zip(alone, plays, strict=True):
            found = first_difference(one, other)
            if found is None:
                continue
            step, values = found
            yield failure(
                "shared_state",
                f"seed {one.seed} plays differently {how}: instances share state (class attributes, mutable "
                "defaults, module globals), or reset does not start everything anew",
                seed=one.seed, step=step, actions=one.actions[:step], values=values,
            )  # fmt: skip
            return


def _shared_criteria(context: Context) -> Iterator[Finding]:
    """Criteria of a fresh instance must not see what other instances did before."""
    if not context.is_tool_use:
        return
    for seed in SEEDS[:2]:
        alone = list(criteria_at_reset(context.session(), seed))
        shared = list(criteria_at_reset(context.session(ONE_NAMESPACE), seed))
        changed = [one.number for one, other in zip(alone, shared, strict=False) if one.value is not other.value]
        if changed:
            yield failure(
                "shared_state",
                f"criterion {changed[0] + 1} of a fresh instance with seed {seed} depends on what other instances did: "
                "instances share state (class attributes, mutable defaults, module globals)",
                seed=seed, criteria=changed,
            )  # fmt: skip
            return
