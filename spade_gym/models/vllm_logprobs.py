"""Log-probabilities before and after truncation, out of what vLLM returns for each token."""

from __future__ import annotations

import math
from typing import Any

from spade_gym.models.base import Sampling


def logprobs_of(
    flat: Any, sampling: Sampling, *, num_candidates: int, vocabulary: int
) -> tuple[tuple[float, ...], tuple[float, ...] | None]:
    """Return the log-probabilities before and after top-k and top-p.

    Args:
        flat: vLLM's ``FlatLogprobs``: for each token the sampled one, then the candidates, most probable first.
        sampling: How the tokens were drawn.
        num_candidates: How many were asked for; those that were not kept are -inf.
        vocabulary: Number of tokens that there are.

    Returns:
        The second is ``None`` where candidates beyond those asked for were kept.
    """
    values, starts, ends = flat.logprobs, flat.start_indices, flat.end_indices
    logprobs = tuple(min(0.0, values[start]) for start in starts)
    if sampling.temperature == 0:
        return logprobs, (0.0,) * len(logprobs)
    if not num_candidates:
        return logprobs, logprobs if sampling.top_p == 1 else None
    kept = []
    for start, end in zip(starts, ends, strict=True):
        candidates = [value for value in values[start + 1 : end] if value > -math.inf]
        if len(candidates) == num_candidates < vocabulary:
            return logprobs, None
        highest = candidates[0]
        mass = math.log(sum(math.exp(value - highest) for value in candidates)) + highest
        kept.append(min(0.0, values[start] - mass))
    return logprobs, tuple(kept)
