"""How a session reaches its harness: over a socket to a jailed worker, or by a plain call at L0."""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from spade_gym.errors import ProgramCrash, ProgramTimeout
from spade_gym.sandbox.harness import Harness
from spade_gym.sandbox.wire import Reply, Request, Rows, body_length, decode_reply, frame, max_frame_bytes
from spade_gym.sandbox.worker import answer, play_rows
from spade_gym.sandbox.world import Patches, Stage
from spade_gym.sandbox.zygotes import WorkerProcess

_READ_BYTES = 1 << 18
_monotonic, _read, _write = time.monotonic, os.read, os.write


class Channel(Protocol):
    """One request at a time: ``send`` it, then ``receive`` until the answer is complete."""

    def send(self, operation: str, arguments: Sequence[Any], seconds: float) -> None:
        """Send a request; its answers are due within ``seconds`` of one another."""

    def receive(self) -> Reply:
        """Return the next frame of the answer; raises ``ProgramTimeout`` or ``ProgramCrash``."""

    def close(self) -> None:
        """Kill what is at the other end."""


class WorkerChannel:
    """Frames to and from a jailed worker, each checked before it is believed.

    Attributes:
        process: The worker.

    Args:
        process: A worker that is ready.
        text_chars: Longest observation, for the bound of a frame's size.
    """

    def __init__(self, process: WorkerProcess, text_chars: int) -> None:
        self.process = process
        self._text_chars = text_chars
        self._descriptor = process.connection.fileno()
        self._buffer: bytes | bytearray = b""
        self._sequence = 0
        self._seconds = 0.0
        self._max_bytes = 0

    def send(self, operation: str, arguments: Sequence[Any], seconds: float) -> None:
        """Send a request.

        Raises:
            ProgramCrash: The worker is dead, or spoke unasked.
            ProgramTimeout: It does not read.
        """
        if self._buffer:
            raise ProgramCrash("the program's process sent data that nobody asked for", reason="protocol")
        if seconds != self._seconds:
            self._set_timeout(seconds)
        self._sequence += 1
        self._max_bytes = max_frame_bytes(self._text_chars, len(arguments))
        data = frame(Request(self._sequence, operation, arguments))  # type: ignore[arg-type]
        try:
            written = _write(self._descriptor, data)
            while written < len(data):
                data = data[written:]
                written = _write(self._descriptor, data)
        except BlockingIOError:
            raise ProgramTimeout(f"the program's process read nothing for {seconds:g} s") from None
        except OSError as error:
            raise ProgramCrash(f"the program's process is dead: {error.strerror}") from None

    def receive(self) -> Reply:
        """Return the next frame, waiting at most the seconds given to ``send``.

        Raises:
            ProgramTimeout: It did not come in time, however many bytes of it did.
            ProgramCrash: The worker died or sent something that is no answer to the request.
        """
        deadline = _monotonic() + self._seconds
        buffer = self._buffer
        while True:
            length = body_length(buffer)
            if length is not None:
                if length > self._max_bytes:
                    raise ProgramCrash(f"the program's process sent a frame of {length} bytes", reason="protocol")
                if len(buffer) >= 4 + length:
                    break
            if buffer:
                self._await_more(deadline)
            try:
                data = _read(self._descriptor, _READ_BYTES)
            except BlockingIOError:
                raise self._late() from None
            except OSError:
                data = b""
            if not data:
                raise ProgramCrash("the program's process died (crash, exit, or a limit of memory or processor time)")
            if not buffer:
                buffer = data
            else:
                buffer = bytearray(buffer) if isinstance(buffer, bytes) else buffer
                buffer += data
        self._buffer = bytes(buffer[4 + length :])
        return self._decode(buffer[4 : 4 + length])

    def _decode(self, body: bytes | bytearray) -> Reply:
        try:
            reply = decode_reply(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ProgramCrash(f"the program's process sent a malformed frame: {error}", reason="protocol") from None
        if reply.sequence != self._sequence:
            raise ProgramCrash("the program's process answered a request that was not made", reason="protocol")
        return reply

    def _await_more(self, deadline: float) -> None:
        """Wait for more bytes until the absolute deadline: SO_RCVTIMEO starts anew with every dribbled byte."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        if not poll.poll(max(0.0, deadline - _monotonic()) * 1000):
            raise self._late()

    def _late(self) -> ProgramTimeout:
        return ProgramTimeout(f"the program did not answer within {self._seconds:g} s and was killed")

    def _set_timeout(self, seconds: float) -> None:
        self._seconds = seconds
        value = struct.pack("ll", int(seconds), max(1, int(seconds % 1 * 1e6)))
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self.process.connection.setsockopt(socket.SOL_SOCKET, option, value)

    def close(self) -> None:
        """Kill the worker."""
        self.process.kill()


class LocalChannel:
    """A harness inside this process (L0). No deadline holds, and the program can do whatever this process can."""

    def __init__(self) -> None:
        stage = Stage()
        self._patches = Patches(stage)
        self._harness = Harness(stage)
        self._replies: list[Reply] = []
        self._sequence = 0

    def send(self, operation: str, arguments: Sequence[Any], seconds: float) -> None:
        """Carry the request out."""
        self._sequence += 1
        request = Request(self._sequence, operation, list(arguments))
        self._replies.clear()
        self._patches.install()
        try:
            if operation in ("step", "reset"):
                play_rows(self._harness, request, self._keep)
            else:
                self._replies.append(answer(self._harness, request))
        finally:
            self._patches.remove()

    def _keep(self, rows: Rows) -> None:
        self._replies.append(rows)

    def receive(self) -> Reply:
        """Return the next part of the answer."""
        return self._replies.pop(0)

    def close(self) -> None:
        """Forget the program."""
        self._harness = Harness(Stage())
