"""Weights spread over processes with FSDP2, and how they come together again.

Each process holds a part of every weight, of its gradient and of Adam's moments. A layer's weights are gathered when it
computes, and its gradient is summed over the processes and spread again, so that micro-batches may be anywhere.
Embedding, last norm and head are one unit, gathered for the length of a micro-batch.

Source: FSDP2, ``torch.distributed.fsdp.fully_shard`` (the idea: arXiv:2304.11277).
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from spade_trainers.grpo.policy import GrpoError

if TYPE_CHECKING:
    from spade_trainers.grpo.processes import Processes


def sharded_copy(source: Any, config: Mapping[str, Any], dtype: torch.dtype, processes: Processes) -> Any:
    """Make a model whose weights are spread over the processes, with the weights of process 0; all of them call this.

    Args:
        source: The whole model, of transformers; on other processes than 0 nothing is looked at, ``None`` will do.
        config: Of the model, as ``to_dict`` of its configuration gives it.
        dtype: Of its weights.
        processes: All.

    Raises:
        GrpoError: transformers does not make this model out of its configuration.
    """
    from transformers import AutoConfig, AutoModelForCausalLM

    told = dict(config)
    try:
        kind = AutoConfig.for_model(told.pop("model_type"), **told)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(kind, dtype=dtype, attn_implementation="sdpa")
    except (KeyError, ValueError) as error:
        raise GrpoError(
            f"several processes need a model that transformers knows by its configuration: {error}"
        ) from error
    if source is not None and type(source) is not type(model):
        raise GrpoError(
            f"several processes cannot train a {type(source).__name__}: its configuration makes a "
            f"{type(model).__name__}"
        )
    _shard(model, processes)
    model.to_empty(device=processes.device)
    _fill(model, source, processes)
    return model.eval()


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """Return all of a tensor, gathered where it is spread (then every process must call this, in the same order)."""
    from torch.distributed.tensor import DTensor

    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def own_part(tensor: torch.Tensor) -> torch.Tensor:
    """Return what this process holds of a tensor."""
    from torch.distributed.tensor import DTensor

    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def like(tensor: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return a whole tensor, the same on every process, on the device of another and spread as that is."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    if not isinstance(other, DTensor):
        return tensor.to(other.device)
    return distribute_tensor(tensor.to(other.device), other.device_mesh, other.placements, src_data_rank=None)


def gathered(tensors: Mapping[str, torch.Tensor], *, keep: bool) -> dict[str, torch.Tensor]:
    """Return whole tensors by name, those that were spread in the memory of the CPU; none where they are not kept.

    Args:
        tensors: By name, in the same order on every process.
        keep: Whether this process wants them.
    """
    found = {}
    for name, value in tensors.items():
        tensor = whole(value.detach())
        if keep:
            found[name] = tensor if own_part(value) is value else tensor.cpu()
    return found


def reshard(model: Any) -> None:
    """Let go of gathered weights; nothing where none are spread."""
    from torch.distributed.fsdp import FSDPModule

    if isinstance(model, FSDPModule):
        model.reshard()


def _shard(model: Any, processes: Processes) -> None:
    from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method

    names = set(getattr(model, "_no_split_modules", None) or ())
    precision = MixedPrecisionPolicy(reduce_dtype=torch.promote_types(model.dtype, torch.float32))
    for layer in [module for module in model.modules() if type(module).__name__ in names]:
        fully_shard(layer, mesh=processes.mesh, mp_policy=precision)
    fully_shard(model, mesh=processes.mesh, mp_policy=precision)
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)  # gradients are sums: coefficients know the whole batch
            module.set_force_sum_reduction_for_comms(True)  # gloo knows no other
    # A pass to the last hidden state gathers the head as well, which is used behind it (``logprobs.py``).
    model.to_hidden = types.MethodType(_to_hidden, model)
    register_fsdp_forward_method(model, "to_hidden")


def _to_hidden(model: Any, **inputs: Any) -> Any:
    return model.base_model(**inputs)


def _fill(model: Any, source: Any, processes: Processes) -> None:
    """Give every process its part of the weights of process 0, and all of its buffers."""
    import torch.distributed as dist
    from torch.distributed.tensor import distribute_tensor

    weights = {} if source is None else dict(source.named_parameters())
    buffers = {} if source is None else dict(source.named_buffers())
    group = processes.mesh.get_group()
    with torch.no_grad():
        for name, own in model.named_parameters():
            given = weights[name].detach() if weights else torch.empty(own.shape, dtype=own.dtype)
            own.copy_(distribute_tensor(given.to(processes.device), own.device_mesh, own.placements))
        for name, own in model.named_buffers():
            if buffers:
                own.copy_(buffers[name])
            dist.broadcast(own, src=0, group=group)
