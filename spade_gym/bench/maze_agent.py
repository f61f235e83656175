"""A small proximal policy optimisation (PPO) in NumPy: one perceptron with a policy and a value head.

Schulman et al. 2017 (arXiv:1707.06347), with generalised advantages, an entropy bonus and Adam; the settings stand in
``Settings``. It is small so that a benchmark takes minutes; it is no library.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
_Parameters = dict[str, Floats]


class Settings(NamedTuple):
    """Settings of PPO."""

    hidden: int = 64
    step: float = 1e-3
    discount: float = 0.99
    trace: float = 0.95
    clip: float = 0.2
    entropy: float = 0.01
    value_weight: float = 0.5
    epochs: int = 4
    minibatch: int = 512
    gradient_norm: float = 0.5


class Batch(NamedTuple):
    """Transitions to learn from, n of them.

    Attributes:
        inputs: (n, d).
        actions: (n,).
        log_probs: (n,) of the actions, when they were chosen.
        advantages: (n,).
        targets: (n,) of the values.
    """

    inputs: Floats
    actions: Ints
    log_probs: Floats
    advantages: Floats
    targets: Floats

    def select(self, chosen: npt.NDArray[Any]) -> Batch:
        """Return some of the transitions: places (m,), or a mask of the leading axes."""
        columns: list[npt.NDArray[Any]] = [column[chosen] for column in self]
        return Batch(*columns)


class Agent:
    """The player.

    Args:
        num_inputs: Length of what it sees.
        num_actions: Number of actions.
        rng: Source of chance.
        settings: Of PPO.
    """

    def __init__(
        self, num_inputs: int, num_actions: int, rng: np.random.Generator, settings: Settings | None = None
    ) -> None:
        self.settings = settings or Settings()
        self._rng = rng
        hidden = self.settings.hidden
        self._parameters: _Parameters = {
            "w1": _orthogonal(rng, num_inputs, hidden, 1.4), "b1": np.zeros(hidden, np.float32),
            "w2": _orthogonal(rng, hidden, hidden, 1.4), "b2": np.zeros(hidden, np.float32),
            "wp": _orthogonal(rng, hidden, num_actions, 0.01), "bp": np.zeros(num_actions, np.float32),
            "wv": _orthogonal(rng, hidden, 1, 1.0), "bv": np.zeros(1, np.float32),
        }  # fmt: skip
        self._first = {name: np.zeros_like(value) for name, value in self._parameters.items()}
        self._second = {name: np.zeros_like(value) for name, value in self._parameters.items()}
        self._count = 0

    def with_chance(self, rng: np.random.Generator) -> Agent:
        """Return the same player (it shares the parameters) that draws from another source of chance."""
        twin = copy.copy(self)
        twin._rng = rng
        return twin

    def act(self, inputs: Floats) -> tuple[Ints, Floats, Floats]:
        """Draw actions for (n, d) inputs; return them, their log-probabilities and the values, all (n,)."""
        _, _, logs, values = self._forward(inputs)
        draws = self._rng.random((len(inputs), 1))
        actions = (np.exp(logs).cumsum(1) < draws).sum(1).clip(0, logs.shape[1] - 1)
        return actions, logs[np.arange(len(actions)), actions], values

    def learn(self, batch: Batch) -> None:
        """Make one update of several epochs."""
        n = len(batch.actions)
        for _ in range(self.settings.epochs):
            order = self._rng.permutation(n)
            for start in range(0, n, self.settings.minibatch):
                chosen = order[start : start + self.settings.minibatch]
                self._descend(batch.select(chosen))

    def _forward(self, inputs: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        p = self._parameters
        first = np.tanh(inputs @ p["w1"] + p["b1"])
        second = np.tanh(first @ p["w2"] + p["b2"])
        scores = second @ p["wp"] + p["bp"]
        scores -= scores.max(1, keepdims=True)
        logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
        return first, second, logs, (second @ p["wv"] + p["bv"])[:, 0]

    def _descend(self, batch: Batch) -> None:
        first, second, logs, values = self._forward(batch.inputs)
        n, rows = len(values), np.arange(len(values))
        advantages = (batch.advantages - batch.advantages.mean()) / (batch.advantages.std() + 1e-8)
        ratios = np.exp(logs[rows, batch.actions] - batch.log_probs)
        inside = np.where(advantages > 0, ratios < 1 + self.settings.clip, ratios > 1 - self.settings.clip)
        chances = np.exp(logs)
        entropy = -(chances * logs).sum(1, keepdims=True)
        pull = np.where(inside, -advantages * ratios, 0.0).astype(np.float32)
        d_scores = -chances * pull[:, None]
        d_scores[rows, batch.actions] += pull
        d_scores += self.settings.entropy * chances * (logs + entropy)
        d_values = self.settings.value_weight * (values - batch.targets)
        self._step(self._gradients(batch.inputs, first, second, d_scores / n, d_values[:, None] / n))

    def _gradients(
        self, inputs: Floats, first: Floats, second: Floats, d_scores: npt.NDArray[Any], d_values: npt.NDArray[Any]
    ) -> _Parameters:
        p = self._parameters
        d_second = (d_scores @ p["wp"].T + d_values @ p["wv"].T) * (1 - second**2)
        d_first = (d_second @ p["w2"].T) * (1 - first**2)
        return {
            "w1": inputs.T @ d_first, "b1": d_first.sum(0), "w2": first.T @ d_second, "b2": d_second.sum(0),
            "wp": second.T @ d_scores, "bp": d_scores.sum(0), "wv": second.T @ d_values, "bv": d_values.sum(0),
        }  # fmt: skip

    def _step(self, gradients: _Parameters) -> None:
        """Adam (0.9, 0.999), with the norm of the whole gradient clipped."""
        self._count += 1
        norm = float(np.sqrt(sum(float((g * g).sum()) for g in gradients.values())))
        scale = min(1.0, self.settings.gradient_norm / (norm + 1e-8))
        step = self.settings.step * np.sqrt(1 - 0.999**self._count) / (1 - 0.9**self._count)
        for name, gradient in gradients.items():
            gradient = gradient * scale
            self._first[name] += 0.1 * (gradient - self._first[name])
            self._second[name] += 0.001 * (gradient**2 - self._second[name])
            change = step * self._first[name] / (np.sqrt(self._second[name]) + 1e-8)
            self._parameters[name] -= change.astype(np.float32)


def advantages_of(
    rewards: Floats, values: Floats, ends: npt.NDArray[np.bool_], last_values: Floats, settings: Settings
) -> Floats:
    """Return generalised advantages of a rollout.

    Args:
        rewards: (t, n) by step and place.
        values: (t, n) at the beginning of each step.
        ends: (t, n) whether the step ended an episode.
        last_values: (n,) after the last step.
        settings: Discount and trace.
    """
    advantages = np.zeros_like(rewards)
    running = np.zeros_like(last_values)
    following = last_values
    for t in range(len(rewards) - 1, -1, -1):
        goes_on = 1.0 - ends[t].astype(np.float32)
        surprise = rewards[t] + settings.discount * following * goes_on - values[t]
        running = surprise + settings.discount * settings.trace * goes_on * running
        advantages[t] = running
        following = values[t]
    return advantages


def _orthogonal(rng: np.random.Generator, rows: int, columns: int, gain: float) -> Floats:
    q, r = np.linalg.qr(rng.standard_normal((max(rows, columns), min(rows, columns))))
    q = q * np.sign(np.diag(r))
    matrix: Floats = (gain * (q if rows >= columns else q.T)).astype(np.float32)
    return matrix
