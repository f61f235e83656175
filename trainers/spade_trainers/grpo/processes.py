"""The processes of one ``torchrun``: process 0 runs the cycle and leads, the others follow.

What goes between them is bytes on the default group, written and read by msgspec with a type: no pickle. The default
group never times out, because those who follow may wait for hours until there is something to learn from; weights and
gradients travel on a group of their own, which does. When a process ends, its connections break, and so do the calls
that wait for it; torchrun ends the others.
"""

from __future__ import annotations

import datetime
import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from spade_trainers.grpo.policy import GrpoError

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

_FOR_EVER = datetime.timedelta(days=365)
_COLLECTIVE = datetime.timedelta(minutes=30)
_LENGTH = torch.int64


class LeaderGone(GrpoError):
    """Process 0 has ended, for reasons that it tells itself."""


def num_processes() -> int:
    """Return how many processes torchrun started; 1 without torchrun."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    """Return the number of this process among them."""
    return int(os.environ.get("RANK", "0"))


class Processes:
    """This process among the others.

    :func:`join` makes it.

    Args:
        mesh: All of them, for weights and gradients.

    Attributes:
        rank: Number of this process; 0 leads.
        size: How many there are.
        mesh: As given.
        device: Where this one computes.
    """

    def __init__(self, mesh: DeviceMesh) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.mesh = mesh
        self.device = own_device()

    def tell(self, message: bytes) -> None:
        """Send a message of process 0 to all that :meth:`hear`.

        Raises:
            GrpoError: One of them has ended.
        """
        with self.together():
            dist.broadcast(torch.tensor([len(message)], dtype=_LENGTH), src=0)
            dist.broadcast(_tensor(message), src=0)

    def hear(self) -> bytes:
        """Wait for the next message of process 0.

        Raises:
            LeaderGone: It has ended.
        """
        length = torch.zeros(1, dtype=_LENGTH)
        try:
            dist.broadcast(length, src=0)
            data = torch.empty(int(length), dtype=torch.uint8)
            dist.broadcast(data, src=0)
        except RuntimeError as error:
            raise LeaderGone("process 0 has ended: what it said last tells why") from error
        return _bytes(data)

    def gather(self, mine: bytes) -> list[bytes]:
        """Exchange a message with every other process; return all of them, by rank.

        Raises:
            GrpoError: One of them has ended.
        """
        lengths = [torch.zeros(1, dtype=_LENGTH) for _ in range(self.size)]
        with self.together():
            dist.all_gather(lengths, torch.tensor([len(mine)], dtype=_LENGTH))
            longest = max(int(length) for length in lengths)
            found = [torch.empty(longest, dtype=torch.uint8) for _ in range(self.size)]
            dist.all_gather(found, _tensor(mine.ljust(longest, b"\0")))
        return [_bytes(data)[: int(length)] for data, length in zip(found, lengths, strict=True)]

    @staticmethod
    def leave() -> None:
        """Part from the others, when all do."""
        dist.destroy_process_group()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Say it plainly where what is done together fails because another process has ended.

        Raises:
            GrpoError: One has.
        """
        try:
            yield
        except RuntimeError as error:
            first = str(error).partition("\n")[0]
            if not isinstance(error, dist.DistError) and "gloo" not in first and "onnection" not in first:
                raise
            raise GrpoError(
                f"another process of this torchrun has ended, so this one (rank {self.rank}) cannot go on: look for "
                f"its message ({first})"
            ) from error


@functools.cache
def join() -> Processes:
    """Meet the other processes, all of which must call this; once in a process, as torch has it.

    Raises:
        GrpoError: torch is too old, or the others cannot be reached.
    """
    import torch.distributed.fsdp as fsdp
    from torch.distributed.device_mesh import DeviceMesh

    if not hasattr(getattr(fsdp, "FSDPModule", None), "set_force_sum_reduction_for_comms"):
        raise GrpoError(f"several processes need FSDP2 of torch 2.9 or later, this is {torch.__version__}")
    device = own_device()
    if device.type == "cuda":
        torch.cuda.set_device(device)
    try:
        dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo", timeout=_FOR_EVER)
        group = dist.new_group(timeout=_COLLECTIVE)
    except (ValueError, RuntimeError) as error:  # DistError among them
        raise GrpoError(f"the processes of this torchrun do not find one another: {error}") from error
    return Processes(DeviceMesh.from_group(group, device.type))


def own_device() -> torch.device:
    """Return the device of this process: its own GPU of the machine, or the CPU."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))


def _tensor(message: bytes) -> Any:
    return torch.frombuffer(bytearray(message or b"\0"), dtype=torch.uint8)[: len(message)]


def _bytes(data: torch.Tensor) -> bytes:
    message: bytes = data.numpy().tobytes()
    return message
