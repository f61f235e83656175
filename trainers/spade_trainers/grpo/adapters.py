"""Low-rank adapters (LoRA, arXiv:2106.09685) through peft."""

from __future__ import annotations

from typing import Any

from spade_trainers.grpo.policy import GrpoError
from spade_trainers.grpo.settings import GrpoSettings


def adapt(model: Any, settings: GrpoSettings, *, seed: int) -> Any:
    """Put adapters into a model, in place; only they are trained from then on, and the engine samples with them.

    Args:
        model: Of transformers.
        settings: Rank, scale and places.
        seed: Of their initial weights.

    Returns:
        peft's model around the same weights.

    Raises:
        GrpoError: peft is missing, or has adapters for none of the layers.
    """
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise GrpoError(f"lora_rank needs peft ({error}): pip install peft") from error
    import torch

    targets = settings.lora_targets
    config = LoraConfig(
        r=settings.lora_rank,
        lora_alpha=settings.lora_alpha,
        target_modules=targets[0] if targets == ("all-linear",) else list(targets),
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        try:
            return get_peft_model(model, config)
        except ValueError as error:
            raise GrpoError(f"peft cannot adapt {type(model).__name__} at {', '.join(targets)}: {error}") from error
