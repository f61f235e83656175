"""Log-probabilities of sampled tokens, and a loss of them, without the logits of more than a few tokens at a time.

Only places whose next token was sampled go through the head, a chunk of them at a time. For a chunk of hidden states h,
z = (h·Wᵀ + bias) / temperature::

    log π(a) = z_a − logsumexp(z)          H = −Σ p·log p,   p = softmax(z)
    ∂ log π(a) / ∂z = 1_a − p              ∂H / ∂z = −p·(log p + H)

The loss of a token depends on its own log π and H alone. So a chunk's gradients with respect to h and W are known as
soon as its logits are, and the logits are dropped: nothing is computed twice, and no more than three buffers of chunk ×
vocabulary exist (idea: Liger's fused linear losses, arXiv:2410.10989).
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


class Sampled(NamedTuple):
    """Sampled tokens, with the hidden states before them.

    Attributes:
        hidden: Of shape (tokens, width).
        targets: The tokens, shape (tokens,).
        temperatures: At which each was sampled, positive, shape (tokens,).
    """

    hidden: torch.Tensor
    targets: torch.Tensor
    temperatures: torch.Tensor


class Scored(NamedTuple):
    """Each of shape (tokens,), without a gradient.

    Attributes:
        logprobs: log π of the sampled tokens.
        entropy: Of π at their places, in nats.
    """

    logprobs: torch.Tensor
    entropy: torch.Tensor


def chunk_of(mib: int, vocabulary: int, device: str) -> int:
    """Return how many tokens' logits, three buffers of four bytes, fit into ``mib`` MiB; 0: the device's default."""
    room = (mib or (64 if device == "cpu" else 1024)) * _MIB
    return max(1, room // (3 * 4 * vocabulary))


def score(sampled: Sampled, head: Head) -> Scored:
    """Return log-probabilities and entropies without a gradient."""
    with torch.no_grad():
        chunks = [chunk.scored for chunk in _chunks(sampled, head)]
    return _joined(chunks)


def fused_loss(sampled: Sampled, head: Head, objective: Objective) -> tuple[torch.Tensor, Scored]:
    """Return the sum of the losses, with gradients for the hidden states and the head, and what it was computed from.

    Args:
        sampled: Tokens and hidden states.
        head: The last layer.
        objective: The loss of some rows.
    """
    total, logprobs, entropy = _FusedLoss.apply(*sampled, *head, objective)  # type: ignore[no-untyped-call,unused-ignore]
    return total, Scored(logprobs, entropy)


class _Chunk(NamedTuple):
    """Some rows; ``probabilities`` and ``log_probabilities`` are of shape (rows, vocabulary)."""

    rows: slice
    scored: Scored
    probabilities: torch.Tensor
    log_probabilities: torch.Tensor


def _chunks(sampled: Sampled, head: Head) -> Iterator[_Chunk]:
    """Yield rows chunk by chunk; products in the hidden states' precision, the rest at least in single precision."""
    hidden, targets, temperatures = sampled
    weight = head.weight.to(hidden.dtype)
    bias = None if head.bias is None else head.bias.to(hidden.dtype)
    for start in range(0, len(hidden), head.chunk):
        rows = slice(start, min(start + head.chunk, len(hidden)))
        scores = hidden[rows] @ weight.T
        if bias is not None:
            scores += bias
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        scores /= temperatures[rows, None].to(scores.dtype)
        # log_softmax and a product with a sum: logsumexp and bmm are five times slower on a CPU
        scores = scores.log_softmax(dim=-1)
        probabilities = scores.exp()
        entropy = -(probabilities * scores).sum(dim=-1)
        yield _Chunk(rows, Scored(scores.gather(1, targets[rows, None])[:, 0], entropy), probabilities, scores)


class _FusedLoss(torch.autograd.Function):  # type: ignore[misc,unused-ignore]
    """See the module: the gradients are computed beside the loss, and ``backward`` only scales them."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        targets: torch.Tensor,
        temperatures: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        chunk: int,
        objective: Objective,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        sampled, head = Sampled(hidden, targets, temperatures), Head(weight, bias, chunk)
        by_hidden = torch.empty_like(hidden)
        by_weight = torch.zeros_like(weight) if ctx.needs_input_grad[3] else None
        by_bias = torch.zeros_like(bias) if bias is not None and ctx.needs_input_grad[4] else None
        narrow_weight = weight.to(hidden.dtype)
        total = torch.zeros((), dtype=torch.promote_types(hidden.dtype, torch.float32), device=hidden.device)
        scored: list[Scored] = []
        with torch.autocast(hidden.device.type, enabled=False):
            for part in _chunks(sampled, head):
                loss, by_logits = _loss_and_slope(part, sampled, objective)
                total += loss
                scored.append(part.scored)
                narrow = by_logits.to(hidden.dtype)
                torch.mm(narrow, narrow_weight, out=by_hidden[part.rows])
                if by_weight is not None and by_weight.dtype == narrow.dtype:
                    by_weight.addmm_(narrow.T, hidden[part.rows])
                elif by_weight is not None:
                    by_weight += narrow.T @ hidden[part.rows]
                if by_bias is not None:
                    by_bias += by_logits.sum(dim=0)
        ctx.save_for_backward(by_hidden, by_weight, by_bias)
        found = _joined(scored)
        ctx.mark_non_differentiable(*found)
        return total, found.logprobs, found.entropy

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor, *_: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        by_hidden, *by_head = ctx.saved_tensors
        if float(grad) != 1:  # else there is no second copy of the head's gradient, the largest of all
            by_hidden, *by_head = (
                None if saved is None else saved * grad.to(saved.dtype) for saved in (by_hidden, *by_head)
            )
        return by_hidden, None, None, *by_head, None, None


def _loss_and_slope(part: _Chunk, sampled: Sampled, objective: Objective) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a chunk's loss and its gradient by the logits before the temperature; uses up the chunk's buffers."""
    logprobs, entropy = part.scored
    with torch.enable_grad():
        free, free_entropy = logprobs.detach().requires_grad_(), entropy.detach().requires_grad_()
        loss = objective(part.rows, free, free_entropy)
        slope, entropy_slope = torch.autograd.grad(loss, (free, free_entropy), allow_unused=True)
    temperatures = sampled.temperatures[part.rows].to(logprobs.dtype)
    slope = torch.zeros_like(logprobs) if slope is None else slope / temperatures
    if entropy_slope is None:
        by_logits = part.probabilities.mul_(-slope[:, None])
    else:
        by_entropy = part.log_probabilities.add_(entropy[:, None]).mul_((entropy_slope / temperatures)[:, None])
        by_logits = by_entropy.add_(slope[:, None]).neg_().mul_(part.probabilities)
    by_logits.scatter_add_(1, sampled.targets[part.rows, None], slope[:, None])
    return loss.detach(), by_logits


def _joined(parts: list[Scored]) -> Scored:
    return Scored(torch.cat([part.logprobs for part in parts]), torch.cat([part.entropy for part in parts]))
