"""Log-probabilities of sampled tokens, and a loss of them, without the logits of more than a few tokens at a time.

Only places whose next token was sampled go through the head, a chunk of them at a time. For a chunk of hidden states h,
z = h·Wᵀ / temperature (+ bias / temperature)::

    log π(a) = z_a − logsumexp(z)          H = logsumexp(z) − Σ p·z,   p = softmax(z)
    ∂ log π(a) / ∂z = 1_a − p              ∂H / ∂z = −p·(z − logsumexp(z) + H)

The loss of a token depends on its own log π and H alone. So a chunk's gradients with respect to h and W are known as soon
as its logits are, and the logits are dropped: nothing is computed twice, and no more than two buffers of chunk × vocabulary
exist (idea: Liger's fused linear losses, arXiv:2410.10989).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

_MIB = 2**20

#: Takes rows of the micro-batch with their log-probabilities and entropies; returns the sum of their losses.
Objective = Callable[[slice, torch.Tensor, torch.Tensor], torch.Tensor]


class Head(NamedTuple):
    """The last linear layer.

    Attributes:
        weight: Of shape (vocabulary, width).
        bias: Of shape (vocabulary,), or ``None``.
        chunk: Tokens whose logits exist at a time, at least 1.
    """

    weight: torch.Tensor
    bias: torch.Tensor | None
    chunk: int


class Scored(NamedTuple):
    """Each of shape (tokens,), without a gradient.

    Attributes:
        logprobs: log π of the sampled tokens.
        entropy: Of π at their places, in nats.
    """

    logprobs: torch.Tensor
    entropy: torch.Tensor


def chunk_of(mib: int, vocabulary: int, device: str) -> int:
    """Return how many tokens' logits, two buffers of four bytes each, fit into ``mib`` MiB (0: the device's default)."""
    room = (mib or (64 if device == "cpu" else 1024)) * _MIB
    return max(1, room // (2 * 4 * vocabulary))


def score(hidden: torch.Tensor, head: Head, targets: torch.Tensor, temperatures: torch.Tensor) -> Scored:
    """Return log-probabilities and entropies without a gradient.

    Args:
        hidden: Hidden states at the places before the sampled tokens, shape (tokens, width).
        head: The last layer.
        targets: The sampled tokens, shape (tokens,).
        temperatures: At which each was sampled, shape (tokens,).
    """
    with torch.no_grad():
        chunks = [chunk[:2] for chunk in _chunks(hidden, head, targets, temperatures)]
    return Scored(*(torch.cat(parts) for parts in zip(*chunks, strict=True)))


def fused_loss(
    hidden: torch.Tensor, head: Head, targets: torch.Tensor, temperatures: torch.Tensor, objective: Objective
) -> tuple[torch.Tensor, Scored]:
    """Return the sum of the losses, with gradients for ``hidden`` and the head, and what it was computed from.

    Args:
        hidden, head, targets, temperatures: As for :func:`score`.
        objective: The loss of some rows.
    """
    total, logprobs, entropy = _FusedLoss.apply(
        hidden, head.weight, head.bias, targets, temperatures, objective, head.chunk
    )
    return total, Scored(logprobs, entropy)


def _chunks(
    hidden: torch.Tensor, head: Head, targets: torch.Tensor, temperatures: torch.Tensor
) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, slice]]:
    """Yield log-probabilities, entropies, probabilities, log-probabilities of all tokens, and the rows of each chunk."""
    # Products in the precision of the hidden states, everything after them in at least single precision.
    weight = head.weight.detach().to(hidden.dtype)
    bias = None if head.bias is None else head.bias.detach().to(hidden.dtype)
    for start in range(0, len(hidden), head.chunk):
        rows = slice(start, min(start + head.chunk, len(hidden)))
        scores = hidden.detach()[rows] @ weight.T
        if bias is not None:
            scores += bias
        scores = scores if scores.dtype == torch.float64 else scores.float()
        scores /= temperatures[rows, None].to(scores.dtype)
        scores -= scores.logsumexp(dim=-1, keepdim=True)
        probabilities = scores.exp()
        entropy = -torch.bmm(probabilities[:, None], scores[:, :, None])[:, 0, 0]
        yield scores.gather(1, targets[rows, None])[:, 0], entropy, probabilities, scores, rows


class _FusedLoss(torch.autograd.Function):  # type: ignore[misc,unused-ignore]
    """See the module: the gradients are computed beside the loss, and ``backward`` only scales them."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        targets: torch.Tensor,
        temperatures: torch.Tensor,
        objective: Objective,
        chunk: int,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        grads = _HeadGradients(hidden, weight, bias, ctx.needs_input_grad)
        total = torch.zeros((), dtype=torch.promote_types(hidden.dtype, torch.float32), device=hidden.device)
        parts: list[tuple[torch.Tensor, torch.Tensor]] = []
        with torch.autocast(hidden.device.type, enabled=False):
            for logprobs, entropy, *logits, rows in _chunks(hidden, Head(weight, bias, chunk), targets, temperatures):
                loss, slope, entropy_slope = _slopes(objective, rows, logprobs, entropy)
                total += loss
                parts.append((logprobs, entropy))
                grads.add(rows, *logits, entropy, targets[rows], temperatures[rows], slope, entropy_slope)
        ctx.save_for_backward(grads.hidden, grads.weight, grads.bias)
        found = tuple(torch.cat(columns) for columns in zip(*parts, strict=True))
        ctx.mark_non_differentiable(*found)
        return total, found[0], found[1]

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor, *_: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        scaled = (None if saved is None else saved * grad.to(saved.dtype) for saved in ctx.saved_tensors)
        return (*scaled, None, None, None, None)


def _slopes(
    objective: Objective, rows: slice, logprobs: torch.Tensor, entropy: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Return a chunk's loss and its derivatives by log-probability and by entropy (``None``: it does not depend)."""
    with torch.enable_grad():
        free, free_entropy = logprobs.detach().requires_grad_(), entropy.detach().requires_grad_()
        loss = objective(rows, free, free_entropy)
        slope, entropy_slope = torch.autograd.grad(loss, (free, free_entropy), allow_unused=True)
    return loss.detach(), torch.zeros_like(logprobs) if slope is None else slope, entropy_slope


class _HeadGradients:
    """Gradients of the loss by hidden states and by the head, summed up chunk by chunk."""

    def __init__(
        self, hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, needed: tuple[bool, ...]
    ) -> None:
        self._hidden = hidden.detach()
        self._weight = weight.detach().to(hidden.dtype)
        self.hidden = torch.empty_like(hidden) if needed[0] else None
        self.weight = torch.zeros_like(weight) if needed[1] else None
        self.bias = torch.zeros_like(bias) if needed[2] and bias is not None else None

    def add(
        self,
        rows: slice,
        probabilities: torch.Tensor,
        scores: torch.Tensor,
        entropy: torch.Tensor,
        targets: torch.Tensor,
        temperatures: torch.Tensor,
        slope: torch.Tensor,
        entropy_slope: torch.Tensor | None,
    ) -> None:
        """Add a chunk; its two buffers are used up."""
        slope = slope / temperatures.to(slope.dtype)
        if entropy_slope is None:
            by_logits = probabilities.mul_(-slope[:, None])
        else:
            entropy_slope = entropy_slope / temperatures.to(slope.dtype)
            by_logits = scores.add_(entropy[:, None]).mul_(-entropy_slope[:, None]).sub_(slope[:, None])
            by_logits = by_logits.mul_(probabilities)
        by_logits.scatter_add_(1, targets[:, None], slope[:, None])
        narrow = by_logits.to(self._hidden.dtype)
        if self.hidden is not None:
            torch.mm(narrow, self._weight, out=self.hidden[rows])
        if self.weight is not None and self.weight.dtype == narrow.dtype:
            self.weight.addmm_(narrow.T, self._hidden[rows])
        elif self.weight is not None:
            self.weight += narrow.T @ self._hidden[rows]
        if self.bias is not None:
            self.bias += by_logits.sum(dim=0)
