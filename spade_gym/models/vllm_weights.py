"""New weights for a running vLLM engine: complete, under the checkpoint's names, and seen to have arrived.

The trap: where the output layer shares the embedding's weights (``tie_word_embeddings``), a checkpoint holds them once.
vLLM's reload then fills the embedding and leaves the output layer's own packed copy as it was, with no more than a
warning. So the shared weights are pushed under both names, and afterwards the output layer is probed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from spade_gym.models.base import ModelError

#: Largest relative difference of the probe's logits; rounding of fp32 and of bf16.
_TOLERANCE = {"float32": 1e-4, "bfloat16": 3e-2, "float16": 5e-3}
_NUM_PROBED = 512


class Checkpoint(NamedTuple):
    """What a model's complete weights are called.

    Attributes:
        shapes: Of every weight, by its name in ``state_dict()`` of transformers.
        embedding: Name of the input embedding.
        head: Name of the output layer's weight.
        tied: Whether the two are one.
    """

    shapes: dict[str, tuple[int, ...]]
    embedding: str
    head: str
    tied: bool


def checkpoint_of(config: Any) -> Checkpoint:
    """Return the names and shapes of a model's weights; makes the model without memory.

    Args:
        config: Of transformers.

    Raises:
        ModelError: transformers knows no such model.
    """
    import torch
    from transformers import AutoModelForCausalLM

    try:
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
    except ValueError as error:
        raise ModelError(f"the names of the model's weights are unknown: {error}") from error
    names = {id(module): name for name, module in model.named_modules()}
    head = model.get_output_embeddings()
    return Checkpoint(
        shapes={name: tuple(value.shape) for name, value in model.state_dict().items()},
        embedding=f"{names[id(model.get_input_embeddings())]}.weight",
        head=f"{names[id(head)]}.weight",
        tied=bool(config.get_text_config().tie_word_embeddings),
    )


def complete(tensors: Iterable[tuple[str, Any]], checkpoint: Checkpoint) -> list[tuple[str, Any]]:
    """Check that weights are complete, and return them with the output layer's among them.

    Raises:
        ModelError: A weight is missing, unknown or of another shape, or the tied ones differ.
    """
    items = {name: tensor.detach() for name, tensor in tensors}
    if checkpoint.tied and checkpoint.embedding in items:
        shared = items[checkpoint.embedding]
        given = items.setdefault(checkpoint.head, shared)
        if given is not shared and (given.shape != shared.shape or not bool((given == shared).all())):
            raise ModelError(f"{checkpoint.head} and {checkpoint.embedding} are tied in this model, but differ")
    unknown = sorted(set(items) - set(checkpoint.shapes))
    missing = sorted(set(checkpoint.shapes) - set(items))
    if unknown or missing:
        raise ModelError(
            "all weights must be given, under their names in the state_dict() of transformers: "
            f"{len(missing)} missing{_some(missing)}, {len(unknown)} unknown{_some(unknown)}"
        )
    for name, tensor in items.items():
        if tuple(tensor.shape) != checkpoint.shapes[name]:
            raise ModelError(f"weight {name} must have the shape {checkpoint.shapes[name]}, got {tuple(tensor.shape)}")
    return list(items.items())


def push(engine: Any, items: list[tuple[str, Any]], checkpoint: Checkpoint) -> None:
    """Reload an engine's weights and see that the output layer has them.

    Args:
        engine: vLLM's ``LLMEngine``, with nothing in flight.
        items: From ``complete``.
        checkpoint: Of the model.

    Raises:
        ModelError: The output layer computes with other weights.
    """
    import torch

    from spade_gym.models.vllm_worker import head_error

    engine.collective_rpc("reload_weights", kwargs={"weights_iterator": items})
    engine.reset_prefix_cache()
    head = dict(items)[checkpoint.head]
    ids = torch.linspace(0, head.shape[0] - 1, min(_NUM_PROBED, head.shape[0])).long()
    rows = head[ids.to(head.device)].float().cpu()
    found = engine.collective_rpc(head_error, kwargs={"rows": rows, "ids": ids, "seed": 0})
    errors = [error for error in found if error is not None]
    dtype = str(engine.vllm_config.model_config.dtype).removeprefix("torch.")
    if not errors or not max(errors) <= _TOLERANCE[dtype]:
        seen = f"its logits are off by {max(errors):.2g} of the largest" if errors else "it cannot be probed"
        raise ModelError(
            f"vLLM did not take over the weights of the output layer {checkpoint.head}: {seen}. Completions would come "
            "from old weights; open the engine anew, and report this with the versions of vLLM and the model"
        )


def _some(names: list[str]) -> str:
    return f" ({', '.join(names[:3])}{', …' if len(names) > 3 else ''})" if names else ""
