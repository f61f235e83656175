"""Causal attention inside each sample of a packed row, and nowhere else.

transformers' own packing builds a mask over the whole row: its cost grows with the square of the row. Here each segment
(``prefixes.py``) is its own call of PyTorch's attention, so a row costs what its samples cost alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from spade_trainers.grpo.prefixes import Segment

#: The name under which transformers knows this attention; models get it for the length of a pass only.
NAME = "spade_packed"


@dataclass(frozen=True, slots=True)
class Packing:
    """The segments of a row, as models pass them on: libraries that look into arguments do not look into this one.

    Attributes:
        segments: One behind the other.
    """

    segments: tuple[Segment, ...]


@contextlib.contextmanager
def packed_attention(model: Any) -> Iterator[None]:
    """Let a model of transformers use this attention; afterwards it has its own again.

    Passes inside must say ``packing``; their backward passes belong inside too.

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
    packing: Packing,
    scaling: float | None = None,
    dropout: float = 0.0,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Attend within each segment and to what is above it; tensors are of shape (1, heads, tokens, head width)."""
    # split, not slices: the gradient of a slice is as large as the row, that of split is written once
    segments = packing.segments
    lengths = [len(segment.ids) for segment in segments]
    queries, keys, values = (torch.split(tensor, lengths, dim=2) for tensor in (query, key, value))
    groups = query.shape[1] // key.shape[1]
    outputs = []
    for number, segment in enumerate(segments):
        seen = [*segment.above, number]
        k, v = (torch.cat([parts[index] for index in seen], dim=2) for parts in (keys, values))
        q, mask, length = queries[number], None, lengths[number]
        if 0 < segment.depth <= length:
            # causal without a mask, which costs half as much: rows of zeros ask in the place of what is above
            q = torch.cat([q.new_zeros(*q.shape[:2], segment.depth, q.shape[3]), q], dim=2)
        elif segment.depth:
            mask = _mask(length, segment.depth, query.device)
            # kernels that take a mask know no grouped heads
            k, v = (part.repeat_interleave(groups, dim=1) for part in (k, v))
        with _precise(q) if mask is not None else contextlib.nullcontext(q.dtype) as dtype:
            attended = scaled_dot_product_attention(
                q.to(dtype),
                k.to(dtype),
                v.to(dtype),
                attn_mask=mask,
                dropout_p=dropout,
                is_causal=mask is None,
                scale=scaling,
                enable_gqa=k.shape[1] != query.shape[1],
            )
        outputs.append(attended[:, :, -length:].to(query.dtype))
    return torch.cat(outputs, dim=2).transpose(1, 2), None


@contextlib.contextmanager
def _precise(query: torch.Tensor) -> Iterator[torch.dtype]:
    """Yield the precision of a few queries to many keys: on a CPU half precision takes twice as long for these."""
    if query.device.type != "cpu":
        yield query.dtype
        return
    with torch.autocast("cpu", enabled=False):
        yield torch.promote_types(query.dtype, torch.float32)


def _mask(length: int, depth: int, device: torch.device) -> torch.Tensor:
    """Everything above, and the past of the segment itself."""
    return torch.ones(length, depth + length, dtype=torch.bool, device=device).tril(depth)
