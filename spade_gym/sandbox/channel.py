"""How a session reaches its harness: over a socket to a jailed worker, or by a plain call at L0."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from spade_gym.errors import ProgramCrash, ProgramTimeout
from spade_gym.sandbox.harness import Harness
from spade_gym.sandbox.spin import Spin
from spade_gym.sandbox.wire import (
    LENGTH_BYTES,
    NUDGE,
    Reply,
    Request,
    Rows,
    body_length,
    decode_reply,
    decode_request,
    encode,
    frame,
    max_frame_bytes,
)
from spade_gym.sandbox.worker import answer, play_rows
from spade_gym.sandbox.world import Patches, Stage
from spade_gym.sandbox.zygotes import WorkerProcess

#: Below malloc's threshold for mapping fresh pages, which would cost 13 µs a read.
_READ_BYTES = 1 << 16
_monotonic, _write = time.monotonic, os.write


class Channel(Protocol):
    """One request at a time: ``send`` it, then ``receive`` until the answer is complete."""

    def send(self, operation: str, arguments: Sequence[Any], seconds: float) -> None:
        """Send a request; its answers are due within ``seconds`` of one another."""

    def nudge(self) -> None:
        """Wake the other end: a request is about to follow."""

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
        self._descriptor = process.connection.fileno()
        self._recv = process.connection.recv
        self._spin = Spin(self._descriptor)
        self._buffer: bytes | bytearray = b""
        self._sequence = 0
        self._seconds = 0.0
        self._took = 0.0
        self._max_bytes = max_frame_bytes(text_chars)
        self._is_answering = False

    def send(self, operation: str, arguments: Sequence[Any], seconds: float) -> None:
        """Send a request.

        Raises:
            ValueError: An argument is no text that can be sent.
            ProgramCrash: The worker is dead, or spoke unasked, or an earlier request was given up before its end, so
                that its answer could be taken for this one's.
            ProgramTimeout: It does not read.
        """
        if self._is_answering:
            raise ProgramCrash("an earlier request to the program's process was given up in the middle")
        if self._buffer:
            raise ProgramCrash("the program's process sent data that nobody asked for", reason="protocol")
        if seconds != self._seconds:
            self._set_timeout(seconds)
        data = _request_frame(self._sequence + 1, operation, arguments)
        self._sequence += 1
        self._is_answering = True
        try:
            written = _write(self._descriptor, data)
        except BlockingIOError:
            written = 0
        except OSError as error:
            raise _dead(error) from None
        if written < len(data):
            self._send_rest(data[written:])

    def await_ready(self) -> None:
        """Wait until the worker has locked itself in; a request may have been sent to it before.

        Raises:
            SandboxError: A part of the jail failed.
        """
        self.process.await_ready()
        self._set_timeout(self._seconds)

    def nudge(self) -> None:
        """Wake the worker with an empty frame, which it skips; one that is dead or does not read stays as it is."""
        if self._is_answering:
            return
        try:
            _write(self._descriptor, NUDGE)
        except OSError:  # what follows finds out, and says so
            return

    def _send_rest(self, data: bytes) -> None:
        try:
            self.process.connection.sendall(data)
        except TimeoutError:
            raise ProgramTimeout(f"the program's process read nothing for {self._seconds:g} s") from None
        except OSError as error:
            raise _dead(error) from None

    def receive(self) -> Reply:
        """Return the next frame, waiting at most the seconds given to ``send``.

        Raises:
            ProgramTimeout: It did not come in time, however many bytes of it did.
            ProgramCrash: The worker died or sent something that is no answer to the request.
        """
        begun = _monotonic()
        deadline = begun + self._seconds
        buffer = self._buffer
        while True:
            length = body_length(buffer)
            if length is not None:
                if length > self._max_bytes:
                    raise ProgramCrash(f"the program's process sent a frame of {length} bytes", reason="protocol")
                if len(buffer) >= 4 + length:
                    break
            if buffer:
                buffer = bytearray(buffer) if isinstance(buffer, bytes) else buffer
                buffer += self._read_until(deadline)
            else:
                buffer = self._read()
        self._buffer = bytes(buffer[4 + length :])
        self._took = _monotonic() - begun
        return self._decode(buffer[4 : 4 + length])

    def _read(self) -> bytes:
        """Wait for bytes, at most the whole time; ``recv`` keeps its deadline even when signals interrupt it."""
        self._spin.wait(self._took)
        try:
            data = self._recv(_READ_BYTES)
        except TimeoutError:
            raise self._late() from None
        except OSError:
            data = b""
        if not data:
            raise ProgramCrash("the program's process died (crash, exit, or a limit of memory or processor time)")
        return data

    def _read_until(self, deadline: float) -> bytes:
        """Wait for further bytes of a frame: every dribbled byte would give ``_read`` a new deadline."""
        seconds, remaining = self._seconds, deadline - _monotonic()
        if remaining <= 0:
            raise self._late()
        self.process.connection.settimeout(remaining)
        try:
            return self._read()
        finally:
            self._set_timeout(seconds)

    def _decode(self, body: bytes | bytearray) -> Reply:
        try:
            reply = decode_reply(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ProgramCrash(f"the program's process sent a malformed frame: {error}", reason="protocol") from None
        if reply.sequence != self._sequence:
            raise ProgramCrash("the program's process answered a request that was not made", reason="protocol")
        self._is_answering = type(reply) is Rows and not reply.last
        return reply

    def _late(self) -> ProgramTimeout:
        return ProgramTimeout(f"the program did not answer within {self._seconds:g} s and was killed")

    def _set_timeout(self, seconds: float) -> None:
        self._seconds = seconds
        self.process.connection.settimeout(seconds)

    def close(self) -> None:
        """Kill the worker."""
        self.process.kill()


class LocalChannel:
    """A harness inside this process (L0). No deadline holds, and the program can do whatever this process can.

    Requests and replies are encoded and decoded all the same, so that a program sees and gives the same values at
    every level.
    """

    def __init__(self) -> None:
        stage = Stage()
        self._patches = Patches(stage)
        self._harness = Harness(stage, interruptible=True)
        self._replies: list[Reply] = []
        self._sequence = 0

    def send(self, operation: str, arguments: Sequence[Any], seconds: float) -> None:
        """Carry the request out.

        Raises:
            ValueError: An argument is no text that can be sent.
        """
        request = decode_request(_request_frame(self._sequence + 1, operation, arguments)[LENGTH_BYTES:])
        self._sequence += 1
        self._replies.clear()
        self._patches.install()
        try:
            if operation in ("step", "reset"):
                play_rows(self._harness, request, self._keep)
            else:
                self._keep(answer(self._harness, request))
        finally:
            self._patches.remove()

    def nudge(self) -> None:
        """Do nothing: nobody sleeps."""

    def _keep(self, reply: Reply) -> None:
        self._replies.append(decode_reply(encode(reply)))

    def receive(self) -> Reply:
        """Return the next part of the answer."""
        return self._replies.pop(0)

    def close(self) -> None:
        """Forget the program."""
        self._harness = Harness(Stage())


def _request_frame(sequence: int, operation: str, arguments: Sequence[Any]) -> bytes:
    try:
        return frame(Request(sequence, operation, arguments))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"{operation}: {error}. Actions must be text without lone surrogates (as text.encode('utf-8') takes it), "
            "seeds and arguments plain data"
        ) from error


def _dead(error: OSError) -> ProgramCrash:
    return ProgramCrash(f"the program's process is dead: {error.strerror}")
