"""The frames between a session and its worker: four bytes of length, then msgpack. Never pickle.

The worker is untrusted. What comes from it is decoded into exactly these types and otherwise refused;
nothing in a frame is ever executed. Its memory cost here is bounded before anything is decoded: no frame may exceed
``max_frame_bytes``, no column ``MAX_ROWS`` rows, and infos and answers stay encoded until ``plain_of`` has counted
their values (one byte of msgpack can stand for 60 bytes of Python).
"""

from __future__ import annotations

import struct
from typing import Annotated, Any

import msgspec

#: What a zygote is sent for a new worker: a number, cpu seconds, memory bytes; the worker's socket comes with it.
ORDER = struct.Struct("<QQQ")
#: What it answers: the number of the order, and the process number; a process handle comes with it.
FORKED = struct.Struct("<QQ")
#: What a zygote, and each worker, says once it is ready; anything else is an error text.
READY = b"R"

TERMINATED, TRUNCATED, FAILED = 1, 2, 4

#: Length of what stands before a frame's body: its length, little-endian.
LENGTH_BYTES = 4
#: An empty frame, which a worker skips: it wakes for it, and then looks for a request (``spin.py``).
NUDGE = bytes(LENGTH_BYTES)
_BYTES_PER_CHAR = 4
#: Most rows of one frame.
MAX_ROWS = 512
#: A worker sends a frame once its rows have this many characters (of text, and bytes of infos), and begins another.
FRAME_CHARS = 1 << 18
#: Largest encoded info of one row, and most values (containers and keys included) in it.
INFO_BYTES, INFO_NODES = 1 << 16, 10_000
#: The same for the answer to a question; a text may take as much as an observation beside it.
VALUE_BYTES, VALUE_NODES = 1 << 20, 100_000

_Column = msgspec.Meta(max_length=MAX_ROWS)
_Names = Annotated[list[Annotated[str, msgspec.Meta(max_length=100)]], msgspec.Meta(max_length=100)]


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
        infos: Non-empty infos by position in this frame, still encoded (see ``plain_of``).
        adapters: Names of adapters that came into use.
    """

    sequence: int
    last: bool
    observations: Annotated[list[str], _Column]
    rewards: Annotated[list[float], _Column]
    flags: Annotated[list[int], _Column]
    infos: Annotated[dict[int, msgspec.Raw], _Column]
    adapters: _Names


class Value(msgspec.Struct, array_like=True, tag="value"):
    """The result of any other operation.

    Attributes:
        sequence: The request's.
        failed: Whether the program raised; ``value`` is then the error's text.
        value: Plain data, still encoded (see ``plain_of``).
        adapters: Names of adapters that came into use.
    """

    sequence: int
    failed: bool
    value: msgspec.Raw
    adapters: _Names


Reply = Rows | Value

encode = msgspec.msgpack.Encoder().encode
decode_request = msgspec.msgpack.Decoder(Request).decode
decode_reply = msgspec.msgpack.Decoder(Reply).decode
_decode_any = msgspec.msgpack.Decoder().decode


def frame(message: Request | Rows | Value) -> bytes:
    """Encode a message with its length in front."""
    body = encode(message)
    return len(body).to_bytes(LENGTH_BYTES, "little") + body


def body_length(buffer: bytes | bytearray) -> int | None:
    """Length of the frame's body, or ``None`` while fewer than four bytes are there."""
    return int.from_bytes(buffer[:LENGTH_BYTES], "little") if len(buffer) >= LENGTH_BYTES else None


def max_frame_bytes(text_chars: int) -> int:
    """Largest frame that an honest worker can send: one that is all but full, and then a row, or an answer, more."""
    return (FRAME_CHARS + max(text_chars, _ERROR_CHARS)) * _BYTES_PER_CHAR + VALUE_BYTES


_ERROR_CHARS = 10_000


def plain_of(raw: msgspec.Raw, max_bytes: int, max_nodes: int) -> Any:
    """Decode what a worker sent as plain data, after a look at how much it would become.

    Args:
        raw: Encoded data; nothing about it is trusted.
        max_bytes: Longest encoding.
        max_nodes: Most values in it, containers and keys included.

    Raises:
        msgspec.MsgspecError: It is malformed, too large, or no plain data (see ``is_plain``).
        RecursionError: It is nested absurdly deep.
    """
    size = len(raw)
    if size > max_bytes:
        raise msgspec.ValidationError(f"{size} bytes of data where {max_bytes} are the most")
    if size > max_nodes and count_nodes(bytes(raw), max_nodes) > max_nodes:
        raise msgspec.ValidationError(f"more than {max_nodes} values in one piece of data")
    value = _decode_any(raw)
    if not is_plain(value):
        raise msgspec.ValidationError("no plain data")
    return value


#: By first byte, of those from 0xC0 to 0xDF: bytes that follow it, of which the last ones hold a length (see below).
_FIXED = {0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8,
          0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17}  # fmt: skip
_TEXT = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4, 0xC7: 1, 0xC8: 2, 0xC9: 4}
_EXTENSIONS = (0xC7, 0xC8, 0xC9)


def count_nodes(data: bytes, enough: int) -> int:
    """Count the values of a msgpack message without making them.

    Args:
        data: The message; what is malformed counts as something.
        enough: Stop beyond this number.
    """
    position, count, size = 0, 0, len(data)
    while position < size and count <= enough:
        first = data[position]
        position += 1
        count += 1
        if 0xA0 <= first < 0xC0:
            position += first & 0x1F
        elif first in _FIXED:
            position += _FIXED[first]
        elif first in _TEXT:
            width = _TEXT[first]
            length = int.from_bytes(data[position : position + width], "big")
            position += width + length + (first in _EXTENSIONS)
        elif 0xDC <= first < 0xE0:  # the length of a list or dict, whose values follow
            position += 4 if first & 1 else 2
    return count


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
