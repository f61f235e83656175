"""What process 0 tells those who follow it: plain data with types, read by msgspec and never unpickled."""

from __future__ import annotations

from typing import Any

import msgspec

from spade_gym.selfplay.trainer import UpdateBatch


class Make(msgspec.Struct, tag=True, frozen=True):
    """Make a trainer.

    Attributes:
        settings: Of ``GrpoSettings``.
        config: The configuration of the model, as JSON.
        dtype: Of its weights, ``float32`` or another name of torch.
        policy_version: Of the weights.
    """

    settings: dict[str, Any]
    config: str
    dtype: str
    policy_version: int


class Update(msgspec.Struct, tag=True, frozen=True):
    """Learn from a batch.

    Attributes:
        batch: The whole of it; each process computes its share.
    """

    batch: UpdateBatch


class Save(msgspec.Struct, tag=True, frozen=True):
    """Bring the weights together, so that process 0 can write them."""


class Load(msgspec.Struct, tag=True, frozen=True):
    """Read a checkpoint.

    Attributes:
        folder: Where it is, for every process.
    """

    folder: str


class Stop(msgspec.Struct, tag=True, frozen=True):
    """The run is over."""


Order = Make | Update | Save | Load | Stop

_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Order] = msgspec.msgpack.Decoder(Order)


def packed(order: Order) -> bytes:
    """Return an order as bytes."""
    return _ENCODER.encode(order)


def unpacked(data: bytes) -> Order:
    """Return the order that bytes hold.

    Raises:
        msgspec.ValidationError: They hold something else.
    """
    return _DECODER.decode(data)
