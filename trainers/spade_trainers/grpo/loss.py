"""The loss of a token: decoupled PPO (arXiv:2110.00641) with GRPO's advantages; method, section 7.

The formula::

    ρ = π_θ / π_prox                            π_prox: the weights at the start of this update
    w = stop_gradient(min(π_prox / π_behaviour, cap))     π_behaviour: what the sampler recorded
    loss = −w · min(ρ·A, clip(ρ, 1 − low, 1 + high)·A)  +  kl · k3  −  entropy · H

    k3 = exp(log π_ref − log π_θ) − (log π_ref − log π_θ) − 1     (Schulman's estimate of KL(π_θ, π_ref), at least 0)

w corrects for what lies between sampling and this update: the designer's K rollouts of delay, and an engine whose
numbers differ from the trainer's. Inside the clip only π_prox is compared with. In a single step ρ is 1, and the
gradient is −w·A·∇log π_θ whatever the clip.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from spade_trainers.grpo.settings import GrpoSettings

#: Beyond this gap between log-probabilities k3 stays flat: e^20 already outweighs every other token of a batch.
_LARGEST_GAP = 20.0


class Tokens(NamedTuple):
    """What is known of the tokens of a micro-batch before π_θ is; each of shape (tokens,).

    Attributes:
        coefficient: What each counts (``aggregation.py``).
        advantage: Its trajectory's.
        behaviour: Log-probability when it was sampled.
        proximal: Log-probability at the start of this update; ``None`` where that is now.
        reference: Log-probability under the initial weights; ``None`` without a KL term.
    """

    coefficient: torch.Tensor
    advantage: torch.Tensor
    behaviour: torch.Tensor
    proximal: torch.Tensor | None = None
    reference: torch.Tensor | None = None

    def rows(self, rows: slice) -> Tokens:
        """Some of them."""
        return Tokens(
            self.coefficient[rows],
            self.advantage[rows],
            self.behaviour[rows],
            None if self.proximal is None else self.proximal[rows],
            None if self.reference is None else self.reference[rows],
        )


class TokenLoss(NamedTuple):
    """The loss of tokens, and what it was made of; each of shape (tokens,).

    Attributes:
        loss: To be summed with the coefficients.
        ratio: ρ.
        weight: w.
        clipped: Whether the clip keeps this token's policy gradient at 0.
        k3: ``None`` without a reference.
    """

    loss: torch.Tensor
    ratio: torch.Tensor
    weight: torch.Tensor
    clipped: torch.Tensor
    k3: torch.Tensor | None

    @classmethod
    def joined(cls, parts: Sequence[TokenLoss]) -> TokenLoss:
        """Join chunks of one micro-batch, without gradients."""
        k3s = [part.k3 for part in parts if part.k3 is not None]
        return cls(
            torch.cat([part.loss for part in parts]).detach(),
            torch.cat([part.ratio for part in parts]),
            torch.cat([part.weight for part in parts]),
            torch.cat([part.clipped for part in parts]),
            torch.cat(k3s) if k3s else None,
        )


def token_loss(logprobs: torch.Tensor, entropy: torch.Tensor, tokens: Tokens, settings: GrpoSettings) -> TokenLoss:
    """Return the loss of each token under π_θ; see the module.

    Args:
        logprobs: log π_θ of the sampled tokens at the sampling temperature, shape (tokens,).
        entropy: Of π_θ at their places, in nats.
        tokens: The rest of what the formula needs.
        settings: Its coefficients.
    """
    proximal = logprobs.detach() if tokens.proximal is None else tokens.proximal
    weight = behaviour_weight(proximal, tokens.behaviour, settings.weight_cap)
    ratio = (logprobs - proximal).exp()
    free = ratio * tokens.advantage
    held = ratio.clamp(1 - settings.clip_low, 1 + settings.clip_high) * tokens.advantage if settings.clip else free
    loss = -weight * torch.minimum(free, held)
    k3 = None
    if tokens.reference is not None:
        k3 = k3_divergence(logprobs, tokens.reference)
        loss = loss + settings.kl * k3
    if settings.entropy:
        loss = loss - settings.entropy * entropy
    return TokenLoss(loss, ratio.detach(), weight, (held < free).detach(), None if k3 is None else k3.detach())


def behaviour_weight(proximal: torch.Tensor, behaviour: torch.Tensor, cap: float) -> torch.Tensor:
    """Return w = min(π_prox / π_behaviour, cap) without a gradient; 1 everywhere for a cap of 0."""
    if cap == 0:
        return torch.ones_like(proximal)
    return (proximal - behaviour).detach().exp().clamp(max=cap)


def k3_divergence(logprobs: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """Return exp(d) − d − 1 with d = log π_ref − log π_θ: at least 0, and 0 only where they agree."""
    gap = (reference - logprobs).clamp(-_LARGEST_GAP, _LARGEST_GAP)
    return gap.exp() - gap - 1
