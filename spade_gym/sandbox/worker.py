"""The loop of a worker: read a request, let the harness act, answer. Runs inside the jail, on one socket."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import msgspec

from spade_gym.sandbox.conversion import encoded_value
from spade_gym.sandbox.harness import Harness, describe
from spade_gym.sandbox.spin import Spin
from spade_gym.sandbox.wire import (
    FRAME_CHARS,
    MAX_ROWS,
    Request,
    Rows,
    Value,
    body_length,
    decode_request,
    frame,
)

#: Results of a batch leave the worker at least this often, so that the session sees progress and can tell
#: which step hangs.
FLUSH_SECONDS = 0.01
_READ_BYTES = 1 << 16  # below malloc's threshold for mapping fresh pages

_monotonic, _read, _write = time.monotonic, os.read, os.write


class Pipe:
    """Frames over one descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = b""
        self._spin = Spin(descriptor)

    def receive(self) -> Request | None:
        """Wait for a request; ``None`` when the session is gone."""
        while True:
            length = body_length(self._buffer)
            if length is not None and len(self._buffer) >= 4 + length:
                body, self._buffer = self._buffer[4 : 4 + length], self._buffer[4 + length :]
                if body:
                    return decode_request(body)
                continue  # a nudge
            self._spin.wait()
            data = _read(self._descriptor, _READ_BYTES)
            if not data:
                return None
            self._buffer += data

    def send(self, message: Rows | Value) -> None:
        """Write a whole frame."""
        data = frame(message)
        written = _write(self._descriptor, data)
        while written < len(data):
            data = data[written:]
            written = _write(self._descriptor, data)


def play_rows(
    harness: Harness, request: Request, send: Callable[[Rows], None], clock: Callable[[], float] = _monotonic
) -> None:
    """Answer a ``reset`` or ``step`` request, in as many frames as progress demands."""
    play = harness.step if request.operation == "step" else harness.reset
    observations: list[str] = []
    rewards: list[float] = []
    flags: list[int] = []
    infos: dict[int, msgspec.Raw] = {}
    num_chars = 0
    flush_at = clock() + FLUSH_SECONDS
    for slot, value in request.arguments:
        # A frame is sent before the next row is begun: the last row goes with the last frame, which is never empty.
        if flags and (clock() > flush_at or len(flags) >= MAX_ROWS or num_chars > FRAME_CHARS):
            send(Rows(request.sequence, False, observations, rewards, flags, infos, harness.new_adapters()))
            observations, rewards, flags, infos, num_chars = [], [], [], {}, 0
            flush_at = clock() + FLUSH_SECONDS
        observation, reward, flag, info = play(slot, value)
        if info:
            infos[len(flags)] = info
            num_chars += len(info)
        num_chars += len(observation)
        observations.append(observation)
        rewards.append(reward)
        flags.append(flag)
    send(Rows(request.sequence, True, observations, rewards, flags, infos, harness.new_adapters()))


def answer(harness: Harness, request: Request) -> Value:
    """Answer any other request; whatever the program raises becomes a failed value."""
    try:
        value = encoded_value(getattr(harness, request.operation)(*request.arguments))
        failed = False
    except BaseException as error:
        value, failed = encoded_value(describe(error)), True
    return Value(request.sequence, failed, value, harness.new_adapters())


def serve(descriptor: int, harness: Harness) -> None:
    """Answer requests until the session closes its end."""
    pipe = Pipe(descriptor)
    while (request := pipe.receive()) is not None:
        if request.operation in ("step", "reset"):
            play_rows(harness, request, pipe.send)
        else:
            pipe.send(answer(harness, request))
