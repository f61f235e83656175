"""What do a trainer's own values say about a task? Scores from value estimates and policies, step by step.

Conventions, where public implementations are known to differ by mistake:

- T is the number of steps of *one* episode. Each score is a mean over an episode's T steps, then over episodes,
  so that long episodes do not weigh more.
- After the last step the value is 0 if the episode terminated, and the critic's value of the final observation if
  it was truncated; never the next episode's first value.
- The sum of discounted TD errors is clipped or made absolute *after* summing, once for each step.

The standard error is that of a mean over episodes; none for one episode.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spade_gym.curriculum.finite import Floats, column, finite, within
from spade_gym.curriculum.score import Score, Unknown

GAMMA, LAMBDA = 0.99, 0.95
_SUM_TOLERANCE = 1e-4


@dataclass(frozen=True, slots=True)
class ValuedEpisode:
    """One episode with what the trainer knew at each of its T steps.

    Attributes:
        rewards: (T,) reward of each step, T at least 1.
        values: (T,) the critic's value of the observation before each step.
        terminated: Whether the task ended, rather than was cut off.
        final_value: The critic's value of the final observation; needed where the episode was truncated.
        probabilities: (T, A) the policy over A actions at each step, for :func:`policy_entropy` only.

    Raises:
        ValueError: Shapes differ, a number is not finite, or a truncated episode has no ``final_value``.
    """

    rewards: Floats
    values: Floats
    terminated: bool
    final_value: float | None = None
    probabilities: Floats | None = None

    def __post_init__(self) -> None:
        """Check shapes and numbers, and turn sequences into arrays."""
        rewards, values = column("rewards", self.rewards), column("values", self.values)
        if not len(rewards) or len(rewards) != len(values):
            raise ValueError(
                f"rewards and values must have one length of at least 1, got {len(rewards)}, {len(values)}"
            )
        if not self.terminated and self.final_value is None:
            raise ValueError("final_value is missing: a truncated episode is worth the value of its final observation")
        if self.final_value is not None:
            finite("final_value", self.final_value)
        object.__setattr__(self, "rewards", rewards)
        object.__setattr__(self, "values", values)
        if self.probabilities is not None:
            object.__setattr__(self, "probabilities", _policy(self.probabilities, len(rewards)))

    @property
    def bootstrap(self) -> float:
        """Value after the last step: 0 if the episode terminated."""
        return 0.0 if self.terminated or self.final_value is None else float(self.final_value)


def discounted_returns(rewards: npt.ArrayLike, *, gamma: float = GAMMA, final_value: float = 0.0) -> Floats:
    """Return the discounted sum of rewards from each step on, (T,): G_t = r_t + γ G_{t+1}, G_T = ``final_value``.

    Raises:
        ValueError: A reward is not finite, or ``gamma`` is not in [0, 1].
    """
    within("gamma", gamma, 0.0, 1.0)
    return _discounted(column("rewards", rewards), gamma, float(finite("final_value", final_value)))


def td_errors(episode: ValuedEpisode, *, gamma: float = GAMMA) -> Floats:
    """Return δ_t = r_t + γ V_{t+1} − V_t of each step, (T,).

    Raises:
        ValueError: ``gamma`` is not in [0, 1].
    """
    within("gamma", gamma, 0.0, 1.0)
    following = np.append(episode.values[1:], episode.bootstrap)
    errors: Floats = episode.rewards + gamma * following - episode.values
    return errors


def advantages(episode: ValuedEpisode, *, gamma: float = GAMMA, lam: float = LAMBDA) -> Floats:
    """Return the generalised advantage estimate Σ_{k ≥ t} (γλ)^{k−t} δ_k of each step, (T,).

    Raises:
        ValueError: ``gamma`` or ``lam`` is not in [0, 1].

    Source: Schulman et al. 2016, equation 16.
    """
    within("lam", lam, 0.0, 1.0)
    return _discounted(td_errors(episode, gamma=gamma), gamma * lam, 0.0)


def positive_value_loss(
    episodes: Sequence[ValuedEpisode], *, gamma: float = GAMMA, lam: float = LAMBDA
) -> Score | Unknown:
    """Mean positive part of the advantages (PVL).

    Formula: 1/T Σ_t max(Σ_{k ≥ t} (γλ)^{k−t} δ_k, 0). Range: [0, ∞).

    Args:
        episodes: Episodes of one task.
        gamma: Discount of the trainer's critic.
        lam: λ of the advantage estimate.

    Raises:
        ValueError: ``gamma`` or ``lam`` is not in [0, 1].

    Source: Jiang et al. 2021b (robust PLR), section 5; Parker-Holder et al. 2022 (ACCEL).
    """
    return _over(episodes, lambda item: float(np.maximum(advantages(item, gamma=gamma, lam=lam), 0.0).mean()))


def l1_value_loss(episodes: Sequence[ValuedEpisode], *, gamma: float = GAMMA, lam: float = LAMBDA) -> Score | Unknown:
    """Mean magnitude of the advantages (L1 GAE, "L1 value loss").

    Formula: 1/T Σ_t |Σ_{k ≥ t} (γλ)^{k−t} δ_k|. Range: [0, ∞).

    Args:
        episodes: Episodes of one task.
        gamma: Discount of the trainer's critic.
        lam: λ of the advantage estimate.

    Raises:
        ValueError: ``gamma`` or ``lam`` is not in [0, 1].

    Source: Jiang et al. 2021 (PLR), table 1.
    """
    return _over(episodes, lambda item: float(np.abs(advantages(item, gamma=gamma, lam=lam)).mean()))


def td_error(episodes: Sequence[ValuedEpisode], *, gamma: float = GAMMA) -> Score | Unknown:
    """Mean magnitude of the one-step errors.

    Formula: 1/T Σ_t |r_t + γ V_{t+1} − V_t|. Range: [0, ∞).

    Args:
        episodes: Episodes of one task.
        gamma: Discount of the trainer's critic.

    Raises:
        ValueError: ``gamma`` is not in [0, 1].

    Source: Jiang et al. 2021 (PLR), table 1.
    """
    return _over(episodes, lambda item: float(np.abs(td_errors(item, gamma=gamma)).mean()))


def max_monte_carlo(
    episodes: Sequence[ValuedEpisode], *, best_return: float | None = None, dense: bool = False, gamma: float = 1.0
) -> Score | Unknown:
    """Mean distance of the critic's values from the best return seen on the task (MaxMC).

    Formula: 1/T Σ_t (R_max − V_t), each value taken from R_max before the mean; with ``dense`` rewards
    R_max − V_0. Range: (−∞, ∞); negative where the critic expects more than was ever reached.

    Args:
        episodes: Episodes of one task.
        best_return: Highest return reached on it before; these episodes' returns are looked at too.
        dense: Rewards come along the way, so that later values are no estimate of the whole return.
        gamma: Discount of returns; 1 as published. The critic's own puts R_max and V_0 on one scale.

    Raises:
        ValueError: ``best_return`` is not finite, or ``gamma`` is not in [0, 1].

    Source: Jiang et al. 2021b (robust PLR), section 5 and appendix.
    """
    returns = [float(discounted_returns(item.rewards, gamma=gamma)[0]) for item in episodes]
    if best_return is not None:
        returns.append(float(finite("best_return", best_return)))
    best = max(returns, default=math.nan)
    return _over(episodes, lambda item: best - float(item.values[0] if dense else item.values.mean()))


def policy_entropy(episodes: Sequence[ValuedEpisode]) -> Score | Unknown:
    """Mean entropy of the policy, in nats.

    Formula: 1/T Σ_t −Σ_a π(a|s_t) ln π(a|s_t) (PLR's table 1 leaves the minus out). Range: [0, ln A].

    Args:
        episodes: Episodes of one task, each with ``probabilities``.

    Raises:
        ValueError: An episode has no ``probabilities``.

    Source: Jiang et al. 2021 (PLR), table 1.
    """
    return _over(episodes, _entropy)


def _entropy(episode: ValuedEpisode) -> float:
    policy = episode.probabilities
    if policy is None:
        raise ValueError("probabilities are missing: policy entropy needs the policy of every step")
    return float(-(policy * np.log(np.where(policy > 0, policy, 1.0))).sum(1).mean()) + 0.0


def _over(episodes: Sequence[ValuedEpisode], score: Callable[[ValuedEpisode], float]) -> Score | Unknown:
    if not episodes:
        return Unknown("no episodes")
    scores = np.array([score(item) for item in episodes])
    error = float(scores.std(ddof=1)) / math.sqrt(len(scores)) if len(scores) > 1 else None
    return Score(float(scores.mean()), error, len(scores))


def _discounted(values: Floats, factor: float, last: float) -> Floats:
    sums = np.empty_like(values)
    for t in range(len(values) - 1, -1, -1):
        last = float(values[t]) + factor * last
        sums[t] = last
    return sums


def _policy(probabilities: npt.ArrayLike, num_steps: int) -> Floats:
    policy = finite("probabilities", probabilities)
    if policy.ndim != 2 or len(policy) != num_steps:
        raise ValueError(f"probabilities must have shape ({num_steps}, actions), got {policy.shape}")
    sums = policy.sum(1)
    if (policy < 0).any() or (abs(sums - 1) > _SUM_TOLERANCE).any():
        worst = sums[np.argmax(abs(sums - 1))]
        raise ValueError(f"each step's probabilities must be from 0 on and sum to 1, got a sum of {worst:g}")
    return policy
