"""How a token is drawn from logits: temperature, then top-k, then top-p, then one uniform number a row.

What a row gets depends on its logits and its number alone. The number is compared with cumulated probabilities in the
order of token ids, not of probabilities, so that logits which differ by rounding (another batch, another machine)
give another token only when the number falls within that rounding of a boundary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from spade_gym.models.base import Sampling

#: Without top-k, top-p is looked for among this many candidates first, and among all when they do not suffice.
_FIRST_CANDIDATES = 1024
_BELOW_ONE = 1 - 2.0**-40


class Drawn(NamedTuple):
    """One token a row.

    Attributes:
        ids: Token ids.
        logprobs: Of each under softmax(logits / temperature); greedy: temperature 1.
        kept_logprobs: Of each among what top-k and top-p kept; greedy: 0.0.
        usable: Whether the row's logits were finite enough to draw from; where false the rest means nothing.
    """

    ids: list[int]
    logprobs: list[float]
    kept_logprobs: list[float]
    usable: list[bool]


def draw(logits: torch.Tensor, sampling: Sampling, uniforms: Sequence[float]) -> Drawn:
    """Draw one token for every row.

    Args:
        logits: Of shape (rows, vocabulary).
        sampling: Temperature, top-p and top-k, the same for all rows.
        uniforms: A number in [0, 1) for every row; unused when greedy.
    """
    scores = logits.float()
    scores = scores - scores.amax(dim=-1, keepdim=True)
    if sampling.temperature > 0:
        scores = scores / sampling.temperature
    total = scores.logsumexp(dim=-1)  # not a number where any logit is none, or infinite
    if sampling.temperature == 0:
        ids, kept_logprobs = scores.argmax(dim=-1), torch.zeros_like(total)
    else:
        ids, kept_logprobs = _pick(*_candidates(scores, total, sampling), uniforms)
    logprobs = scores.gather(1, ids[:, None])[:, 0] - total
    return Drawn(ids.tolist(), logprobs.tolist(), kept_logprobs.tolist(), total.isfinite().tolist())


def _candidates(scores: torch.Tensor, total: torch.Tensor, sampling: Sampling) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ids in ascending order and the weights with which they are drawn; 0 for what is not kept."""
    vocabulary = scores.shape[-1]
    top_k = min(sampling.top_k, vocabulary)
    if not top_k and sampling.top_p == 1:
        every = torch.arange(vocabulary, device=scores.device)
        return every.expand_as(scores), (scores - total[:, None]).exp().double()
    best, ids = scores.topk(top_k or min(_FIRST_CANDIDATES, vocabulary), dim=-1)
    weights = (best - total[:, None]).exp().double()
    if not top_k and bool((weights.sum(dim=-1) < sampling.top_p).any()):
        best, ids = scores.sort(dim=-1, descending=True, stable=True)
        weights = (best - total[:, None]).exp().double()
    if top_k:
        weights = weights / weights.sum(dim=-1, keepdim=True)
    if sampling.top_p < 1:
        before = weights.cumsum(dim=-1) - weights
        weights = weights.masked_fill(before >= sampling.top_p, 0.0)
    ids, order = ids.sort(dim=-1)
    return ids, weights.gather(1, order)


def _pick(ids: torch.Tensor, weights: torch.Tensor, uniforms: Sequence[float]) -> tuple[torch.Tensor, torch.Tensor]:
    cumulated = weights.cumsum(dim=-1)
    mass = cumulated[:, -1:]
    numbers = torch.tensor(uniforms, dtype=torch.float64, device=weights.device).clamp(max=_BELOW_ONE)
    place = (cumulated <= numbers[:, None] * mass).sum(dim=-1, keepdim=True).clamp(max=ids.shape[-1] - 1)
    kept = weights.gather(1, place) / mass
    return ids.gather(1, place)[:, 0], kept.log().float()[:, 0]
