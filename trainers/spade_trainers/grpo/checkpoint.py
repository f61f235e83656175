"""A trainer on disk: safetensors and JSON only, nothing that runs code when it is read.

Without adapters the folder is also a model that ``transformers:FOLDER`` opens (``model.safetensors`` with the
parameters' own names, ``config.json``, the tokenizer); with adapters, ``adapter/`` is in peft's form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

from spade_trainers.grpo.optimiser import Optimiser
from spade_trainers.grpo.policy import GrpoError

_WEIGHTS, _ADAPTERS = "model.safetensors", "adapters.safetensors"
_MASTERS, _MOMENTS, _STATE = "masters.safetensors", "optimiser.safetensors", "trainer.json"
_FORMAT = 1


class Progress(NamedTuple):
    """What a trainer counts beside its weights.

    Attributes:
        num_updates: Updates so far.
        policy_version: Of the weights.
        generator: State of the generator that deals minibatches.
    """

    num_updates: int
    policy_version: int
    generator: dict[str, Any]


def save(
    folder: Path, model: Any, tokenizer: Any, optimiser: Optimiser, progress: Progress, *, adapted: Any = None
) -> None:
    """Write a checkpoint.

    Args:
        folder: Exists.
        model: Whose weights are trained.
        tokenizer: Written beside them; ``None`` for none.
        optimiser: With the trained weights.
        progress: The rest.
        adapted: peft's model, where adapters are trained.
    """
    if adapted is None:
        _write(folder / _WEIGHTS, dict(model.named_parameters()))
        model.config.save_pretrained(folder)
        if getattr(model, "generation_config", None) is not None:
            model.generation_config.save_pretrained(folder)
        if tokenizer is not None:
            tokenizer.save_pretrained(folder)
    else:
        _write(folder / _ADAPTERS, optimiser.trained)
        adapted.save_pretrained(folder / "adapter")
    if optimiser.masters:
        _write(folder / _MASTERS, optimiser.masters)
    _write(folder / _MOMENTS, optimiser.state())
    text = json.dumps({"format": _FORMAT, **progress._asdict()}, indent=2)
    (folder / _STATE).write_text(text + "\n", encoding="utf-8")


def load(folder: Path, model: Any, optimiser: Optimiser, *, adapted: Any = None) -> Progress:
    """Read a checkpoint into a model and its optimiser; return the rest.

    Raises:
        GrpoError: The folder holds no checkpoint of these settings.
    """
    try:
        state = json.loads((folder / _STATE).read_text("utf-8"))
        weights = _read(folder / (_WEIGHTS if adapted is None else _ADAPTERS))
        masters = _read(folder / _MASTERS) if optimiser.masters else {}
        moments = _read(folder / _MOMENTS)
    except (OSError, ValueError) as error:
        raise GrpoError(f"{folder} holds no checkpoint of this trainer with these settings: {error}") from error
    if state.get("format") != _FORMAT:
        raise GrpoError(f"{folder} has a checkpoint of format {state.get('format')!r}, this version reads {_FORMAT}")
    own = dict(model.named_parameters()) if adapted is None else optimiser.trained
    _check(weights, own, folder)
    _check(masters, optimiser.masters, folder)
    try:
        optimiser.load_state(moments)
    except ValueError as error:
        raise GrpoError(f"{folder}: {error}") from error
    with torch.no_grad():
        for name, value in weights.items():
            own[name].copy_(value)
        for name, value in masters.items():
            optimiser.masters[name].copy_(value)
    return Progress(int(state["num_updates"]), int(state["policy_version"]), state["generator"])


def _check(found: Mapping[str, torch.Tensor], own: Mapping[str, torch.Tensor], folder: Path) -> None:
    """Refuse weights of another model before anything is changed."""
    if odd := sorted(set(found) ^ set(own)):
        raise GrpoError(f"{folder} is of another model or other settings: only one of them has {odd[0]!r}")
    for name, value in found.items():
        if (value.shape, value.dtype) != (own[name].shape, own[name].dtype):
            raise GrpoError(
                f"{folder}: {name!r} is {tuple(value.shape)} {value.dtype}, the model's is {tuple(own[name].shape)} "
                f"{own[name].dtype}"
            )


def _write(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    from safetensors.torch import save_file

    save_file({name: value.detach().contiguous() for name, value in tensors.items()}, path, metadata={"format": "pt"})


def _read(path: Path) -> dict[str, torch.Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors: dict[str, torch.Tensor] = load_file(path)
    except SafetensorError as error:
        raise ValueError(f"{path.name} is damaged: {error}") from error
    return tensors
