"""Are rewards finite and returns within [0, 1], whatever is played? Check ``reward``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from spade_gym.errors import ProgramFault
from spade_gym.types import WIN_THRESHOLD
from spade_gym.validation import actions
from spade_gym.validation.context import Context
from spade_gym.validation.finding import Finding, failure, warning
from spade_gym.validation.plays import Play, Policy

#: Largest absolute reward of one step (method, section 4, point 2).
MAX_STEP_REWARD = 10.0
_TOLERANCE = 1e-6
_NUM_RANDOM_PLAYS = 8
_MIN_SCORES = 6
#: Kinds of play in which the player knows nothing; their scores show what a constant share is worth.
_BLIND = ("random", "trivial")


def random_moves(moves: Sequence[str], seed: int) -> Policy:
    """Draw uniformly from the moves and from those that the latest observation announces."""
    rng = np.random.default_rng([seed, 20_260_801])

    def policy(play: Play) -> str | None:
        options = list(dict.fromkeys([*moves, *map(actions.boxed, actions.announced([play.observation]).commands)]))
        return options[int(rng.integers(len(options)))] if options else actions.GARBAGE[0]

    return policy


def is_reward_fault(fault: ProgramFault | None) -> bool:
    """The fault is about the value of a reward (not a number, not finite, beyond every bound)."""
    return fault is not None and "reward" in str(fault) and ("finite" in str(fault) or "number" in str(fault))


def check_reward(context: Context) -> Iterator[Finding]:
    """Every reward is finite and within [−10, 10]; every return is within [0, 1], in all plays of all checks.

    Source: method, section 4, points 2 and 5.
    """
    moves = [*context.commands, *context.solution_actions(0)[:8], *actions.GARBAGE[:1]]
    items = [(seed, random_moves(moves, seed)) for seed in range(_NUM_RANDOM_PLAYS)]
    context.player().play_many(items, steps=context.steps, origin="random", reuse=True)
    broken = next((play for play in context.plays if is_reward_fault(play.fault)), None)
    if broken is not None:
        yield failure("reward", f"a reward is no finite number: {broken.fault}", **broken.evidence())
    played = [play for play in context.plays if play.rewards]
    yield from _judge_steps(played)
    yield from _judge_returns(played)
    yield from _note_constant_share(played)


def _judge_steps(plays: Sequence[Play]) -> Iterator[Finding]:
    worst = max(plays, key=lambda play: max(map(abs, play.rewards)), default=None)
    if worst is not None and max(map(abs, worst.rewards)) > MAX_STEP_REWARD:
        reward = max(worst.rewards, key=abs)
        yield failure(
            "reward", f"a reward of {reward:g} lies outside [-10, 10]; rewards must sum to [0, 1]", **worst.evidence()
        )


def _judge_returns(plays: Sequence[Play]) -> Iterator[Finding]:
    highest = max(plays, key=lambda play: play.total, default=None)
    if highest is not None and highest.total > 1 + _TOLERANCE:
        message = f"a play returns {highest.total:g}, more than 1; the rewards of an episode must sum to [0, 1]"
        yield failure("reward", message, origin=highest.origin, returned=highest.total, **highest.evidence())
    lowest = min(plays, key=lambda play: play.total, default=None)
    if lowest is not None and lowest.total < -_TOLERANCE:
        message = f"a play returns {lowest.total:g}, less than 0; the rewards of an episode must sum to [0, 1]"
        yield failure("reward", message, origin=lowest.origin, returned=lowest.total, **lowest.evidence())


def _note_constant_share(plays: Sequence[Play]) -> Iterator[Finding]:
    """A partial reward that most blind plays get would earn a designer the whole plateau (method, section 5)."""
    scores = [round(play.total, 4) for play in plays if play.origin in _BLIND and play.ended]
    if len(scores) < _MIN_SCORES:
        return
    score, count = Counter(scores).most_common(1)[0]
    if 0 < score < WIN_THRESHOLD and 2 * count > len(scores):
        message = f"{count} of {len(scores)} blind plays get the same partial return of {score:g}"
        yield warning("reward", message, returned=score, plays=count, of=len(scores))
