"""Which programs of a fixed pool are played in a rollout (method, section 8: *fixed environments*)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spade_gym.curriculum.average_scorers import learning_potential
from spade_gym.curriculum.generators import SlidingDifficulty
from spade_gym.curriculum.outcomes import Outcomes
from spade_gym.curriculum.score import Score
from spade_gym.curriculum.task import Outcome, Task
from spade_gym.rollout.play import Play
from spade_gym.selfplay.environment import Environment, environment_of

_STREAM = 12
_LEVELS = {"easy": 0, "": 1, "medium": 1, "hard": 2}


class FixedChoice:
    """Chooses, and learns from what was played.

    Args:
        environments: The fixed pool.
        choice: ``uniform``: each once in a random order, then again. ``sliding-difficulty``: uniformly from a window
            over the programs in the order of their difficulties, which slides up when its top is mastered (τ_acc .9,
            τ_num 8, width 4). ``learning-potential``: those whose mean return moves most (programs not played yet
            first).
        seed: The run's.
    """

    def __init__(self, environments: Sequence[Environment], choice: str, seed: int) -> None:
        order = sorted(environments, key=lambda item: (_LEVELS[item.program.manifest.difficulty], item.index))
        self._environments = order
        self._level = {environment.index: level for level, environment in enumerate(order)}
        self._choice = choice
        self._seed = seed
        self._deck: list[Environment] = []
        self._slide = SlidingDifficulty(parameter="level", kind="attribute", limit=len(order) - 1)
        self._slide.high = min(self._slide.width, len(order)) - 1
        self._played: dict[int, list[tuple[int, float]]] = {environment.index: [] for environment in order}

    def choose(self, rollout: int, count: int) -> list[Environment]:
        """Return the environments of a rollout, by index; a window narrower than ``count`` gives what it has."""
        rng = np.random.default_rng(np.random.SeedSequence(self._seed, spawn_key=(_STREAM, rollout)))
        if self._choice == "sliding-difficulty":
            window = self._environments[self._slide.low : self._slide.high + 1]
            chosen = [window[place] for place in rng.permutation(len(window))[:count]]
        elif self._choice == "learning-potential":
            ranks = {item.index: (-self._potential(item.index), rng.random()) for item in self._environments}
            chosen = sorted(self._environments, key=lambda item: ranks[item.index])[:count]
        else:
            chosen = []
            for _ in range(min(count, len(self._environments))):
                chosen.append(self._next(rng, {item.index for item in chosen}))
        return sorted(chosen, key=lambda item: item.index)

    def _next(self, rng: np.random.Generator, chosen: set[int]) -> Environment:
        """Draw the next one; a deck that is begun anew within a rollout deals what was chosen already last."""
        if not self._deck:
            shuffled = [self._environments[place] for place in rng.permutation(len(self._environments))]
            self._deck = sorted(shuffled, key=lambda item: item.index not in chosen)
        return self._deck.pop()

    def _potential(self, index: int) -> float:
        played = self._played[index]
        if not played:
            return float("inf")
        score = learning_potential(
            Outcomes.of([total for _, total in played], windows=[rollout for rollout, _ in played]), initial=0.0
        )
        return score.value if isinstance(score, Score) else float("inf")

    def observe(self, rollout: int, plays: Sequence[Play]) -> None:
        """Learn from the valid plays of a rollout without the hint."""
        for play in plays:
            index = environment_of(play.key)
            if play.status == "ok":
                self._played[index].append((rollout, play.total))
                outcome = Outcome(0, play.seed, total=play.total, won=play.won, length=play.length)
                self._slide.observe(_level_task(self._level[index]), outcome)


def _level_task(level: int) -> Task:
    return Task("attribute", {"level": level})
