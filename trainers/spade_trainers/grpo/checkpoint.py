"""A trainer on disk: safetensors and JSON only, nothing that runs code when it is read.

Without adapters the folder is also a model that ``transformers:FOLDER`` opens (``model.safetensors`` with the
parameters' own names, ``config.json``, the tokenizer); with adapters, ``adapter/`` is in peft's form.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

from spade_trainers.grpo.optimiser import Optimiser
from spade_trainers.grpo.policy import GrpoError
from spade_trainers.grpo.sharding import gathered, like

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


class Stored(NamedTuple):
    """A checkpoint that was found to be of this model and these settings.

    Attributes:
        folder: Where it is.
        weights: By name.
        masters: By name; empty where the model has none.
        moments: See ``Optimiser.state``.
        progress: The rest.
    """

    folder: Path
    weights: Mapping[str, torch.Tensor]
    masters: Mapping[str, torch.Tensor]
    moments: Mapping[str, torch.Tensor]
    progress: Progress


def save(
    folder: Path,
    model: Any,
    tokenizer: Any,
    optimiser: Optimiser,
    progress: Progress,
    *,
    adapted: Any = None,
    writes: bool = True,
) -> None:
    """Write a checkpoint, the same whether the weights are spread over processes or not.

    All processes over which they are spread must call this; weights go through the memory of the one that writes.

    Args:
        folder: Exists.
        model: Whose weights are trained.
        tokenizer: Written beside them; ``None`` for none.
        optimiser: With the trained weights.
        progress: The rest.
        adapted: peft's model, where adapters are trained.
        writes: Whether this process writes.
    """
    trained = dict(model.named_parameters()) if adapted is None else optimiser.trained
    weights, masters, moments = (
        gathered(tensors, keep=writes) for tensors in (trained, optimiser.masters, optimiser.state())
    )
    if not writes:
        return
    if adapted is None:
        _write(folder / _WEIGHTS, weights)
        model.config.save_pretrained(folder)
        if getattr(model, "generation_config", None) is not None:
            model.generation_config.save_pretrained(folder)
        if tokenizer is not None:
            tokenizer.save_pretrained(folder)
    else:
        _write(folder / _ADAPTERS, weights)
        adapted.save_pretrained(folder / "adapter")
    if masters:
        _write(folder / _MASTERS, masters)
    _write(folder / _MOMENTS, moments)
    text = json.dumps({"format": _FORMAT, **progress._asdict()}, indent=2)
    (folder / _STATE).write_text(text + "\n", encoding="utf-8")


def read(folder: Path, model: Any, optimiser: Optimiser, *, adapted: Any = None) -> Stored:
    """Open a checkpoint and check that it fits a model and its optimiser, which stay as they are.

    Raises:
        GrpoError: The folder holds no checkpoint of these settings.
    """
    try:
        state = json.loads((folder / _STATE).read_text("utf-8"))
        weights = _File(folder / (_WEIGHTS if adapted is None else _ADAPTERS))
        masters = _File(folder / _MASTERS) if optimiser.masters else {}
        moments = _File(folder / _MOMENTS)
    except (OSError, ValueError) as error:
        raise GrpoError(f"{folder} holds no checkpoint of this trainer with these settings: {error}") from error
    if state.get("format") != _FORMAT:
        raise GrpoError(f"{folder} has a checkpoint of format {state.get('format')!r}, this version reads {_FORMAT}")
    own = dict(model.named_parameters()) if adapted is None else optimiser.trained
    _check(weights, own, folder)
    _check(masters, optimiser.masters, folder)
    progress = Progress(int(state["num_updates"]), int(state["policy_version"]), state["generator"])
    return Stored(folder, weights, masters, moments, progress)


def apply(stored: Stored, model: Any, optimiser: Optimiser, *, adapted: Any = None) -> None:
    """Put a checkpoint into the model and the optimiser that it was read for; of spread weights, this process's part.

    Raises:
        GrpoError: The optimiser's state is not whole; the weights have not changed then.
    """
    own = dict(model.named_parameters()) if adapted is None else optimiser.trained
    try:
        optimiser.load_state(stored.moments)
    except ValueError as error:
        raise GrpoError(f"{stored.folder}: {error}") from error
    with torch.no_grad():
        for name, value in stored.weights.items():
            own[name].copy_(like(value, own[name]))
        for name, value in stored.masters.items():
            optimiser.masters[name].copy_(like(value, optimiser.masters[name]))


class _File(Mapping[str, torch.Tensor]):
    """The tensors of a file, each read when it is asked for: none but one needs to be in memory.

    Raises:
        ValueError: The file is damaged.
    """

    def __init__(self, path: Path) -> None:
        from safetensors import SafetensorError, safe_open

        try:
            opened: Any = safe_open(path, "pt")
        except SafetensorError as error:
            raise ValueError(f"{path.name} is damaged: {error}") from error
        self._file: Any = opened
        self._names: tuple[str, ...] = tuple(opened.keys())

    def __getitem__(self, name: str) -> torch.Tensor:
        if name not in self._names:
            raise KeyError(name)
        tensor: torch.Tensor = self._file.get_tensor(name)
        return tensor

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


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
