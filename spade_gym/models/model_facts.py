"""What a loaded model and its tokenizer say about themselves."""

from __future__ import annotations

from typing import Any

from spade_gym.models.base import ModelError


def context_of(model: Any, wanted: int | None) -> int | None:
    """Return the most tokens of a prompt and its completion; ``None`` where the model has no limit.

    Args:
        model: Of transformers.
        wanted: A lower limit of one's own.

    Raises:
        ModelError: More is wanted than the model knows positions for, or less than two tokens.
    """
    most: int | None = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    if wanted is not None and not 2 <= wanted <= (most or wanted):
        raise ModelError(f"max_context must be from 2 to {most}, the positions that the model knows, got {wanted}")
    return wanted or most


def end_ids_of(model: Any, tokenizer: Any) -> set[int]:
    """Return the tokens that end a completion: those of the generation settings, and the tokenizer's end token."""
    listed = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    ends = set(listed) if isinstance(listed, list | tuple) else {listed}
    return {end for end in ends | {tokenizer.eos_token_id} if end is not None}
