"""Which record to replay: probabilities over the memory, from scores and staleness.

A sampler is a small settings object with ``probabilities(memory, now=…)``, vectorised over all records. Records
whose score is unknown are drawn only for staleness, or when no score is known at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

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
        by_rank: h is 1/rank; otherwise the score itself, clipped at 0.
    """

    temperature: float = 0.1
    staleness: float = 0.1
    by_rank: bool = True

    def __post_init__(self) -> None:
        """Check the ranges."""
        if not self.temperature > 0:
            raise ValueError(f"temperature must be above 0, got {self.temperature!r}")
        _check_share("staleness", self.staleness)

    def probabilities(self, memory: Memory, *, now: int) -> _Floats:
        """Return the mixture."""
        scores = memory.scores
        known = ~np.isnan(scores)
        by_score = _normalised(self._priorities(scores, known))
        age = (now - memory.last_asked).astype(np.float64)
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
        _check_share("exploration", self.exploration)

    def probabilities(self, memory: Memory, *, now: int) -> _Floats:
        """Return ε/m + (1 − ε) · score / sum of scores."""
        scores = np.clip(np.nan_to_num(memory.scores, nan=0.0), 0.0, None)
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
        if self.count < 1:
            raise ValueError(f"count must be at least 1, got {self.count!r}")

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

    Weights follow ``w ← log[(1 − α) e^(w + η r̂) + α/(m − 1) Σ others]``, with r̂ the reward divided by the
    probability of the choice, and rewards rescaled to [−1, 1] between the 20th and 80th percentile seen.

    Attributes:
        exploration: ε in (0, 1].
        step: η > 0.
        drift: α in [0, 1).
    """

    exploration: float = 0.05
    step: float = 0.02
    drift: float = 0.001
    _weights: dict[str, float] = field(default_factory=dict)
    _seen: list[float] = field(default_factory=list)

    _KEPT = 1000

    def __post_init__(self) -> None:
        """Check the ranges."""
        _check_share("exploration", self.exploration)
        _check_share("drift", self.drift)
        if self.exploration == 0 or not self.step > 0:
            raise ValueError(f"exploration and step must be above 0, got {self.exploration!r} and {self.step!r}")

    def probabilities(self, memory: Memory, *, now: int) -> _Floats:
        """Return the softmax of the weights with ε of uniform exploration."""
        weights = np.array([self._weights.get(memory.record(int(slot)).task.id, 0.0) for slot in memory.slots()])
        soft = np.exp(weights - weights.max())
        shares: _Floats = (1 - self.exploration) * soft / soft.sum() + self.exploration / len(soft)
        return shares

    def reward(self, task_id: str, progress: float, probability: float, num_tasks: int) -> None:
        """Learn from one play.

        Args:
            task_id: The task that was played.
            progress: Its absolute learning progress.
            probability: With which it was drawn.
            num_tasks: How many could have been drawn.
        """
        self._seen = [*self._seen[-self._KEPT + 1 :], progress]
        low, high = np.quantile(self._seen, (0.2, 0.8))
        scaled = 0.0 if high <= low else float(np.clip(2 * (progress - low) / (high - low) - 1, -1, 1))
        gained = self._weights.get(task_id, 0.0) + self.step * scaled / max(probability, 1e-3)
        mean = float(np.mean([np.exp(min(w, 50.0)) for w in self._weights.values()])) if self._weights else 1.0
        self._weights[task_id] = float(np.log((1 - self.drift) * np.exp(min(gained, 50.0)) + self.drift * mean))

    def state_dict(self) -> dict[str, Any]:
        """Weights and rewards seen, as JSON values."""
        return {"weights": dict(self._weights), "seen": list(self._seen)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Read what ``state_dict`` gave."""
        self._weights, self._seen = dict(state["weights"]), list(state["seen"])


def _shared_by_ties(scores: _Floats, power: float) -> _Floats:
    """Return rank^−power for each score, rank 1 the highest; equal scores share what their ranks have together."""
    order = np.argsort(-scores, kind="stable")
    priorities = np.arange(1, len(order) + 1, dtype=np.float64) ** -power
    ordered = scores[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    if len(starts) < len(order):
        counts = np.diff(np.append(starts, len(order)))
        priorities = np.repeat(np.add.reduceat(priorities, starts) / counts, counts)
    result = np.empty(len(order))
    result[order] = priorities
    return result


def _normalised(mass: _Floats) -> _Floats:
    total = mass.sum()
    return mass / total if total > 0 else np.full(len(mass), 1.0 / len(mass))


def _check_share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must be in [0, 1], got {value!r}")
