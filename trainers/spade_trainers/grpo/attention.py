"""Causal attention inside each sample of a packed row, and nowhere else.

transformers' own packing builds a mask over the whole row: its cost grows with the square of the row. Here each sample
is its own call of PyTorch's attention, without a mask, so a row costs what its samples cost alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

#: The name under which transformers knows this attention; models get it for the length of a pass only.
NAME = "spade_packed"


@contextlib.contextmanager
def packed_attention(model: Any) -> Iterator[None]:
    """Let a model of transformers use this attention; afterwards it has its own again.

    Passes inside must say ``segment_lengths``; their backward passes belong inside too.

    Args:
        model: Of transformers.
    """
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, _attend)
    before = model.config._attn_implementation
    model.set_attn_implementation(NAME)
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def can_pack(model: Any) -> bool:
    """Say whether a model's attention is one that this module can stand in for.

    It must go through transformers' interface and see the whole past in every layer. Whether it then computes the same
    as sample by sample is for a trial to show (``policy.py``).
    """
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ())
    windowed = getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True)
    limited = kinds - {"full_attention"} if kinds else windowed
    return not limited and bool(getattr(model, "_supports_attention_backend", False))


def _attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    segment_lengths: tuple[int, ...],
    scaling: float | None = None,
    dropout: float = 0.0,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Attend within each segment; tensors are of shape (1, heads, tokens, head width)."""
    grouped = query.shape[1] != key.shape[1]
    # split, not slices: the gradient of a slice is as large as the row, that of split is written once
    parts = zip(*(tensor.split(segment_lengths, dim=2) for tensor in (query, key, value)), strict=True)
    outputs = [
        scaled_dot_product_attention(*part, dropout_p=dropout, is_causal=True, scale=scaling, enable_gqa=grouped)
        for part in parts
    ]
    return torch.cat(outputs, dim=2).transpose(1, 2), None
