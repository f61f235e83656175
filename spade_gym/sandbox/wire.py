"""The frames between a session and its worker: four bytes of length, then msgpack. Never pickle.

The worker is untrusted. What comes from it is decoded into exactly these types and otherwise refused;
nothing in a frame is ever executed, and no frame may exceed ``max_frame_bytes``.
"""

from __future__ import annotations

import struct
from typing import Any

import msgspec

#: What a zygote is sent for a new worker: cpu seconds, memory bytes; the worker's socket comes with it.
ORDER = struct.Struct("<QQ")
#: What a zygote, and each worker, says once it is ready; anything else is an error text.
READY = b"R"

TERMINATED, TRUNCATED, FAILED = 1, 2, 4

#: Length of what stands before a frame's body: its length, little-endian.
LENGTH_BYTES = 4
_BYTES_PER_CHAR = 4
#: Largest encoded info of one row.
INFO_BYTES = 1 << 20


class Request(msgspec.Struct, array_like=True):
    """One order to a worker.

    Attributes:
        sequence: Number of the order; every frame that answers it echoes it.
        operation: Name of a method of ``Harness``, or ``reset``/``step`` with rows.
        arguments: Positional arguments; for ``reset`` and ``step`` one (slot, seed or action) pair a row.
    """

    sequence: int
    operation: str
    arguments: list[Any]


class Rows(msgspec.Struct, array_like=True, tag="rows"):
    """Results of ``reset`` or ``step`` by column, in the order in which they were asked; several frames may share them.

    Attributes:
        sequence: The request's.
        last: Whether no further frame follows.
        observations: Texts; of a failed row, the error.
        rewards: One a row.
        flags: ``TERMINATED``, ``TRUNCATED`` and ``FAILED``, added up, one a row.
        infos: Non-empty infos by position in this frame.
        adapters: Names of adapters that came into use.
    """

    sequence: int
    last: bool
    observations: list[str]
    rewards: list[float]
    flags: list[int]
    infos: dict[int, dict[str, Any]]
    adapters: list[str]


class Value(msgspec.Struct, array_like=True, tag="value"):
    """The result of any other operation.

    Attributes:
        sequence: The request's.
        failed: Whether the program raised; ``value`` is then the error's text.
        value: Plain data.
        adapters: Names of adapters that came into use.
    """

    sequence: int
    failed: bool
    value: Any
    adapters: list[str]


Reply = Rows | Value

encode = msgspec.msgpack.Encoder().encode
decode_request = msgspec.msgpack.Decoder(Request).decode
decode_reply = msgspec.msgpack.Decoder(Reply).decode


def frame(message: Request | Rows | Value) -> bytes:
    """Encode a message with its length in front."""
    body = encode(message)
    return len(body).to_bytes(LENGTH_BYTES, "little") + body


def body_length(buffer: bytes | bytearray) -> int | None:
    """Length of the frame's body, or ``None`` while fewer than four bytes are there."""
    return int.from_bytes(buffer[:LENGTH_BYTES], "little") if len(buffer) >= LENGTH_BYTES else None


def max_frame_bytes(text_chars: int, num_rows: int) -> int:
    """Largest frame that an honest worker can send for a request with ``num_rows`` rows."""
    return (num_rows + 1) * (text_chars * _BYTES_PER_CHAR + INFO_BYTES)


_SCALARS = (str, int, float, bool, type(None))
_MAX_DEPTH = 64


def is_plain(value: Any, depth: int = 0) -> bool:
    """Whether a decoded value is JSON-like; msgpack can also carry bytes, times and extensions."""
    kind = type(value)
    if kind in _SCALARS:
        return True
    if depth >= _MAX_DEPTH:
        return False
    if kind is dict:
        return all(type(key) is str and (type(v) in _SCALARS or is_plain(v, depth + 1)) for key, v in value.items())
    return kind in (list, tuple) and all(type(v) in _SCALARS or is_plain(v, depth + 1) for v in value)
