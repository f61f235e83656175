"""What runs inside vLLM's own processes. It imports vLLM: only ``vllm_model.py`` names it, and only as text.

vLLM returns one number a token. Which one is told by ``logprobs_mode``: the log-probability at temperature 1, or what
remains of the logits after temperature, top-k and top-p. A trainer wants the log-probability at the sampling
temperature before truncation. It is had without touching vLLM: in the mode ``processed_logits``, the processors below
subtract from each row the logarithm of its sum. That changes no probability, and then the logits *are*
log-probabilities.
"""

from __future__ import annotations

from typing import Any

import torch
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor


class NormaliseGreedy(LogitsProcessor):  # type: ignore[misc]  # vLLM is not there where types are checked
    """Normalises before the temperature: batches in which all requests are greedy see no other processor."""

    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        """Need nothing."""

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """Turn logits of shape (requests, vocabulary) into log-probabilities, in place."""
        return logits.sub_(torch.logsumexp(logits, dim=-1, keepdim=True))

    def is_argmax_invariant(self) -> bool:
        """Say that this must run for greedy requests too; the most probable token stays the same all the same."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Need no state."""


class NormaliseSampled(NormaliseGreedy):
    """Normalises after the temperature and before top-k and top-p."""

    def is_argmax_invariant(self) -> bool:
        """Let vLLM run this after the temperature."""
        return True


def head_error(worker: Any, rows: torch.Tensor, ids: torch.Tensor, seed: int) -> float | None:
    """Return how far the output layer is from given weights; runs in a worker.

    Args:
        worker: vLLM's.
        rows: Weights of shape (tokens, hidden size), as pushed.
        ids: Their token ids.
        seed: Of the probe.

    Returns:
        Largest difference of a logit, over the largest logit; ``None`` where this worker has no output layer or none
        of the tokens.
    """
    head = getattr(worker.get_model(), "lm_head", None)
    shard = getattr(head, "shard_indices", None)
    if head is None or shard is None:
        return None
    first, end = shard.org_vocab_start_index, shard.org_vocab_end_index
    mine = (ids >= first) & (ids < end)
    if not bool(mine.any()):
        return None
    device, dtype = head.weight.device, head.weight.dtype
    generator = torch.Generator().manual_seed(seed)
    probe = torch.randn(8, rows.shape[1], generator=generator).to(device, dtype)
    with torch.inference_mode():
        got = head.quant_method.apply(head, probe)[:, (ids[mine] - first).to(device)].float()
        wanted = probe.float() @ rows[mine].to(device, dtype).float().T
    return float((got - wanted).abs().max() / wanted.abs().max().clamp_min(1e-6))
