"""A policy, its optimiser and what DQN remembers, as arrays in one file: nothing in it runs code when it is read."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spade_gym.errors import SpadeError

_REPLAY = ("observations", "next_observations", "actions", "rewards", "dones")
Arrays = dict[str, npt.NDArray[Any]]


class Sb3Error(SpadeError):
    """What Stable-Baselines3 cannot learn from, or a checkpoint that is none of its own."""


def save(path: Path, policy: Any, replay: Any = None) -> None:
    """Write a file.

    Args:
        path: Ends with ``.npz``.
        policy: Of Stable-Baselines3, with its optimiser.
        replay: A replay buffer; ``None`` for none.
    """
    arrays: Arrays = {f"policy/{name}": value.numpy() for name, value in policy.state_dict().items()}
    for place, state in policy.optimizer.state_dict()["state"].items():
        arrays.update((f"optimizer/{place}/{name}", np.asarray(value)) for name, value in state.items())
    if replay is not None:
        used = slice(replay.size())
        arrays.update((f"replay/{name}", getattr(replay, name)[used]) for name in _REPLAY)
        arrays["replay/position"] = np.array([replay.pos, int(replay.full)])
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type,unused-ignore]


def load(path: Path, policy: Any, replay: Any = None) -> None:
    """Put a file's contents into a policy (and a replay buffer) of the same shape.

    Raises:
        Sb3Error: It cannot be read, or is of another policy; nothing has changed then.
    """
    import torch

    try:
        with np.load(path, allow_pickle=False) as file:
            held: Arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise Sb3Error(f"{path} cannot be read as a checkpoint of the trainer sb3: {error}") from error
    weights = _below("policy/", held)
    _check({name: tuple(value.shape) for name, value in policy.state_dict().items()}, weights, path)
    remembered = _below("replay/", held) if replay is not None else {}
    if replay is not None:
        position = _whole_replay(replay, remembered, path)
    moments: dict[int, dict[str, torch.Tensor]] = {}
    for name, value in _below("optimizer/", held).items():
        place, _, kind = name.partition("/")
        moments.setdefault(int(place), {})[kind] = torch.from_numpy(value)
    state = policy.optimizer.state_dict()
    policy.optimizer.load_state_dict({**state, "state": moments})
    policy.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    if replay is not None:
        for name in _REPLAY:
            getattr(replay, name)[: len(remembered[name])] = remembered[name]
        replay.pos, replay.full = position


def _below(prefix: str, arrays: Mapping[str, npt.NDArray[Any]]) -> Arrays:
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}


def _check(wanted: Mapping[str, tuple[int, ...]], held: Mapping[str, npt.NDArray[Any]], path: Path) -> None:
    """Refuse arrays of other names or shapes."""
    found = {name: value.shape for name, value in held.items()}
    for name in sorted({*wanted, *found}):
        if wanted.get(name) != found.get(name):
            raise Sb3Error(f"{path} is of another policy: {name} is {found.get(name)}, wanted {wanted.get(name)}")


def _whole_replay(replay: Any, held: Mapping[str, npt.NDArray[Any]], path: Path) -> tuple[int, bool]:
    """Check a replay buffer's arrays; return where the next step goes, and whether the buffer is full."""
    count = len(held.get("actions", ()))
    if "position" not in held or count > replay.buffer_size:
        raise Sb3Error(f"{path} holds {count} steps of DQN, and there is room for {replay.buffer_size}: buffer_steps")
    wanted = {name: (count, *getattr(replay, name).shape[1:]) for name in _REPLAY}
    _check({**wanted, "position": (2,)}, held, path)
    position, full = (int(number) for number in held["position"])
    return position % replay.buffer_size, bool(full) and count == replay.buffer_size
