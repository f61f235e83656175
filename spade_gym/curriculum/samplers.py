"""Which record to replay: probabilities over the memory, from scores and staleness.

A sampler is a small settings object with ``probabilities(memory, now=…)``, vectorised over all records. Records
whose score is unknown are drawn only for staleness, or when no score is known at all.
"""

from __future__ import annotations

import bisect
import functools
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from spade_gym.curriculum.finite import at_least, true_or_false, whole_number, within
from spade_gym.curriculum.memory import Memory

_Floats = npt.NDArray[np.float64]


@runtime_checkable
class Sampler(Protocol):
    """Says how likely each record is to be replayed next."""

    def probabilities(self, memory: Memory, *, now: int) -> _Floats:
        """Return (m,) probabilities for ``memory.slots()``, m >= 1, that sum to 1."""


@dataclass(frozen=True, slots=True)
class Uniform:
    """All records alike."""

    def probabilities(self, memory: Memory, *, now: int) -> _Floats:
        """Return 1/m for each."""
        return np.full(len(memory), 1.0 / len(memory))


@dataclass(frozen=True, slots=True)
class Prioritised:
    """Prioritized Level Replay (Jiang et al. 2021, equations 1 to 3).

    P = (1 − ρ) · P_score + ρ · P_stale, with P_score ∝ h^(1/β), and P_stale ∝ the asks since a record was last
    handed out.

    Attributes:
        temperature: β > 0; small values favour the best.
        staleness: ρ in [0, 1].
        by_rank: h is 1/rank, tasks with equal scores sharing what their ranks have; otherwise h is the score itself,
            clipped at 0.
        stale_unsolved: P_stale is also proportional to the share of recent plays that were lost (at least 0.05): what
            the player always wins is not looked at again as often as what it could not win, but may now. Ours; off in
            the paper.
    """

    temperature: float = 0.1
    staleness: float = 0.1
    by_rank: bool = True
    stale_unsolved: bool = False

    _LEAST_LOST = 0.05

    def __post_init__(self) -> None:
        """Check the ranges."""
        at_least("temperature", self.temperature, 0, strictly=True)
        within("staleness", self.staleness, 0, 1)
        true_or_false("by_rank", self.by_rank)
        true_or_false("stale_unsolved", self.stale_unsolved)

    def probabilities(self, memory: Memory, *, now: int) -> _Floats:
        """Return the mixture."""
        scores = memory.scores
        known = ~np.isnan(scores)
        by_score = _normalised(self._priorities(scores, known))
        age = (now - memory.last_asked).astype(np.float64)
        if self.stale_unsolved:
            lost = 1.0 - memory.win_rates
            lost[np.isnan(lost)] = 1.0
            age *= np.maximum(lost, self._LEAST_LOST)
        return (1 - self.staleness) * by_score + self.staleness * _normalised(age)

    def _priorities(self, scores: _Floats, known: npt.NDArray[np.bool_]) -> _Floats:
        priorities = np.zeros(len(scores))
        if self.by_rank:
            priorities[known] = _shared_by_ties(scores[known], 1.0 / self.temperature)
        elif known.any():
            positive = np.clip(scores[known], 0.0, None)
            top = positive.max()
            priorities[known] = (positive / top) ** (1.0 / self.temperature) if top > 0 else 0.0
        return priorities


@dataclass(frozen=True, slots=True)
class Proportional:
    """Proportional to the score, with a share of uniform exploration (ALP bandits; Portelas et al. 2019).

    Attributes:
        exploration: Share ε in [0, 1] drawn uniformly; the paper's is 0.2.
    """

    exploration: float = 0.2

    def __post_init__(self) -> None:
        """Check the range."""
        within("exploration", self.exploration, 0, 1)

    def probabilities(self, memory: Memory, *, now: int) -> _Floats:
        """Return ε/m + (1 − ε) · score / sum of scores."""
        scores = np.fmax(memory.scores, 0.0)  # unknown counts as 0
        return (1 - self.exploration) * _normalised(scores) + self.exploration / len(scores)


@dataclass(frozen=True, slots=True)
class Best:
    """Uniform over the ``count`` best records (sampling for learnability; Rutherford et al. 2024).

    Records with a score of 0 or less are among them only when no record has more: scores here say what there is to
    learn.

    Attributes:
        count: How many, at least 1.
    """

    count: int = 100

    def __post_init__(self) -> None:
        """Check the range."""
        whole_number("count", self.count, least=1)

    def probabilities(self, memory: Memory, *, now: int) -> _Floats:
        """Return 1/count for the best of the known; ties go to the earlier slot."""
        scores = np.nan_to_num(memory.scores, nan=-np.inf)
        chosen = np.argsort(-scores, kind="stable")[: self.count]
        chosen = chosen[scores[chosen] > 0]
        mass = np.zeros(len(scores))
        mass[chosen] = 1.0
        return _normalised(mass)


@dataclass(slots=True)
class Exp3:
    """The bandit Exp3.S with absolute learning progress as reward (Graves et al. 2017, section 3).

    After a play of record i, every weight becomes log[(1 − α) e^(w + η r̂) + α/(m − 1) Σ others e^w], with r̂ the
    reward divided by the probability of the choice for record i and 0 for the others. Rewards are rescaled to
    [−1, 1] between the 20th and 80th percentile of the last 1,000. A new record has weight 0.

    Attributes:
        exploration: ε in (0, 1].
        step: η > 0.
        drift: α in [0, 1).
    """

    exploration: float = 0.05
    step: float = 0.02
    drift: float = 0.001
    _weights: _Floats = field(default_factory=lambda: np.zeros(0))
    _serials: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    _seen: deque[float] = field(default_factory=deque)
    _sorted: list[float] = field(default_factory=list)

    _KEPT = 1000

    def __post_init__(self) -> None:
        """Check the ranges."""
        at_least("exploration", self.exploration, 0, strictly=True)
        within("exploration", self.exploration, 0, 1)
        at_least("step", self.step, 0, strictly=True)
        within("drift", self.drift, 0, 1)

    def probabilities(self, memory: Memory, *, now: int) -> _Floats:
        """Return the softmax of the weights with ε of uniform exploration."""
        self._follow(memory)
        soft = np.exp(self._weights - self._weights.max())
        shares: _Floats = (1 - self.exploration) * soft / soft.sum() + self.exploration / len(soft)
        return shares

    def reward(self, memory: Memory, slot: int, progress: float, probability: float) -> None:
        """Learn from one play.

        Args:
            memory: The records.
            slot: Of the record that was played.
            progress: Its absolute learning progress.
            probability: With which it was drawn.
        """
        self._follow(memory)
        place = int(memory.slots().searchsorted(slot))
        self._weights[place] += self.step * self._rescaled(progress) / max(probability, 1e-3)
        if self.drift and len(self._weights) > 1:
            top = self._weights.max()
            raised = np.exp(self._weights - top)
            others = (raised.sum() - raised) / (len(raised) - 1)
            self._weights = top + np.log((1 - self.drift) * raised + self.drift * others)

    def _follow(self, memory: Memory) -> None:
        """Bring the weights into the order of the memory's slots; forget those of records that left."""
        serials = memory.serials
        if len(serials) == len(self._serials) and (serials == self._serials).all():
            return
        weights = np.zeros(len(serials))
        if len(self._serials):
            order = np.argsort(self._serials)
            places = order[np.minimum(self._serials[order].searchsorted(serials), len(order) - 1)]
            known = self._serials[places] == serials
            weights[known] = self._weights[places[known]]
        self._weights, self._serials = weights, serials.copy()

    def _rescaled(self, progress: float) -> float:
        self._seen.append(progress)
        bisect.insort(self._sorted, progress)
        if len(self._seen) > self._KEPT:
            del self._sorted[bisect.bisect_left(self._sorted, self._seen.popleft())]
        last = len(self._sorted) - 1
        low, high = self._sorted[round(0.2 * last)], self._sorted[round(0.8 * last)]
        if progress > high or progress < low:
            return 1.0 if progress > high else -1.0
        return 2 * (progress - low) / (high - low) - 1 if high > low else 0.0

    def state_dict(self) -> dict[str, Any]:
        """Weights and rewards seen, as JSON values."""
        return {
            "weights": self._weights.tolist(), "serials": self._serials.tolist(), "seen": list(self._seen)
        }  # fmt: skip

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Read what ``state_dict`` gave."""
        self._weights = np.array(state["weights"], dtype=np.float64)
        self._serials = np.array(state["serials"], dtype=np.int64)
        self._seen, self._sorted = deque(state["seen"]), sorted(state["seen"])


def _shared_by_ties(scores: _Floats, power: float) -> _Floats:
    """Return rank^−power for each score, rank 1 the highest; equal scores share what their ranks have together."""
    size = len(scores)
    if not size:
        return np.zeros(0)
    order = np.argsort(-scores, kind="stable")
    priorities = _rank_powers(size, power)
    ordered = scores[order]
    begins = np.empty(size, dtype=np.bool_)
    begins[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
    starts = np.flatnonzero(begins)
    if len(starts) < size:
        counts = np.empty(len(starts), dtype=np.int64)
        np.subtract(starts[1:], starts[:-1], out=counts[:-1])
        counts[-1] = size - starts[-1]
        priorities = np.repeat(np.add.reduceat(priorities, starts) / counts, counts)
    result = np.empty(size)
    result[order] = priorities
    return result


@functools.lru_cache(maxsize=8)
def _rank_powers(size: int, power: float) -> _Floats:
    powers: _Floats = np.arange(1, size + 1, dtype=np.float64) ** -power
    powers.flags.writeable = False
    return powers


def _normalised(mass: _Floats) -> _Floats:
    total = mass.sum()
    return mass / total if total > 0 else np.full(len(mass), 1.0 / len(mass))
