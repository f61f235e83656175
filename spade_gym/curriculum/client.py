"""An actor's end of a curriculum that a server holds."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any, NoReturn, cast

import msgspec

from spade_gym.curriculum import service_frames as frames
from spade_gym.curriculum.curriculum import EmptyCurriculum, Receipt
from spade_gym.curriculum.service_address import Address
from spade_gym.curriculum.task import Outcome, Ticket
from spade_gym.errors import SpadeError


class ServiceError(SpadeError):
    """The server of a curriculum is gone, refuses this client, or failed."""


class Client:
    """Asks and tells in another process's curriculum.

    It connects at the first use, and again after a fork, a pickle or a restart of the server. An outcome that could
    not be told is kept, and sent before anything else once the server is back (at the same address): telling twice
    does no harm.

    Args:
        address: Of the server (``CurriculumServer(...).address``).
        actor: Name of this actor, for tickets.
        timeout_seconds: Longest wait for an answer.

    Raises:
        ValueError: The address is none.
    """

    def __init__(self, address: str, *, actor: str = "", timeout_seconds: float = 60.0) -> None:
        self.address = address
        self.actor = actor
        self.timeout_seconds = timeout_seconds
        self._place = Address.parse(address)
        self._begin()

    def _begin(self) -> None:
        self._process_id = os.getpid()
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None
        self._unsent: list[Outcome] = []
        self._range = (0.0, 1.0)

    def __repr__(self) -> str:
        return f"Client({self._place.shown!r}, actor={self.actor!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {"address": self.address, "actor": self.actor, "timeout_seconds": self.timeout_seconds}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    # ---- the two calls

    def ask(self, actor: str = "") -> Ticket:
        """Return the next ticket.

        Raises:
            EmptyCurriculum: There is nothing to hand out.
            ServiceError: The server is gone, or failed.
        """
        with self._owned():
            self._send_unsent()
            reply = self._call(frames.Ask(actor or self.actor))
        if not isinstance(reply, frames.Given):
            _raise(reply)
        return frames.unpack_ticket(reply)

    def tell(self, outcome: Outcome) -> Receipt:
        """Tell an outcome; the curriculum has it when this returns.

        Raises:
            ValueError: The curriculum refuses it for good.
            ServiceError: The server is gone, or failed; the outcome is kept for ``flush``.
        """
        return self.tell_many([outcome])[0]

    def tell_many(self, outcomes: Sequence[Outcome]) -> list[Receipt]:
        """Tell several outcomes in one message.

        Raises:
            ValueError: The curriculum refuses one of them for good; it has the others.
            ServiceError: As ``tell``.
        """
        with self._owned():
            self._unsent.extend(outcomes)
            return self._send_unsent()[-len(outcomes) :] if outcomes else []

    def flush(self) -> None:
        """Tell what could not be told before; does nothing when there is no such thing.

        Raises:
            ServiceError: The server is still gone.
        """
        with self._owned():
            self._send_unsent()

    def close(self) -> None:
        """Flush and disconnect. Tickets that this client asked for and has not told of are given up.

        Raises:
            ServiceError: Outcomes could not be told, and are kept.
        """
        try:
            self.flush()
        finally:
            self._disconnect()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def num_unsent(self) -> int:
        """Outcomes that wait for the server to come back."""
        return len(self._unsent)

    @property
    def return_range(self) -> tuple[float, float]:
        """The curriculum's declared range of returns; connects when needed."""
        with self._owned():
            if self._connection is None:
                self._connect()
            return self._range

    # ---- talking

    def _owned(self) -> threading.Lock:
        if self._process_id != os.getpid():
            inherited = self._connection
            self._begin()  # the outcomes, the lock and the server's answers are the parent's
            if inherited is not None:
                inherited.close()
        return self._lock

    def _send_unsent(self) -> list[Receipt]:
        if not self._unsent:
            return []
        reply = self._call(frames.Tell([frames.pack_outcome(outcome) for outcome in self._unsent]))
        if not isinstance(reply, frames.Received):
            _raise(reply)
        self._unsent.clear()
        for message in reply.errors.values():
            raise ValueError(message)
        return cast(list[Receipt], reply.receipts)

    def _call(self, request: frames.Request) -> frames.Reply:
        """Send a request and return its reply; a connection that broke since the last call is renewed once."""
        fresh = self._connection is None
        try:
            connection = self._connection or self._connect()
            return self._exchange(connection, request)
        except (OSError, msgspec.DecodeError) as error:
            self._disconnect()
            if fresh or isinstance(error, TimeoutError):
                raise self._gone(error) from error
        return self._call(request)

    def _connect(self) -> socket.socket:
        try:
            connection = self._place.connect(self.timeout_seconds)
        except OSError as error:
            raise self._gone(error) from error
        try:
            reply = self._exchange(connection, frames.Hello(frames.PROTOCOL_VERSION, self._place.token))
        except (OSError, msgspec.DecodeError) as error:
            connection.close()
            raise self._gone(error) from error
        if not isinstance(reply, frames.Welcome):
            connection.close()
            _raise(reply)
        self._range = (reply.low, reply.high)
        self._connection = connection
        return connection

    def _exchange(self, connection: socket.socket, request: frames.Request) -> frames.Reply:
        connection.sendall(frames.frame(request))
        length = int.from_bytes(_receive(connection, frames.LENGTH_BYTES), "little")
        if length > frames.MAX_FRAME_BYTES:
            raise ConnectionError(f"a frame of {length} bytes")
        return frames.decode_reply(_receive(connection, length))

    def _disconnect(self) -> None:
        if self._connection is not None and self._process_id == os.getpid():
            self._connection.close()
            self._connection = None

    def _gone(self, error: Exception) -> ServiceError:
        kept = (
            f" {len(self._unsent)} outcomes are kept here: flush() tells them once it is back." if self._unsent else ""
        )
        reason = f"no answer within {self.timeout_seconds:g} s" if isinstance(error, TimeoutError) else str(error)
        return ServiceError(
            f"the curriculum's server at {self._place.shown} does not answer ({reason}). Does the process that "
            f"holds it still run, and is its CurriculumServer open?{kept}"
        )


def _receive(connection: socket.socket, size: int) -> bytes:
    data = connection.recv(size)
    if len(data) == size:
        return data
    parts = bytearray(data)
    while len(parts) < size:
        data = connection.recv(size - len(parts))
        if not data:
            raise ConnectionError("the connection was closed")
        parts += data
    return bytes(parts)


def _raise(reply: frames.Reply) -> NoReturn:
    if isinstance(reply, frames.Failed):
        if reply.problem == "empty":
            raise EmptyCurriculum(reply.message)
        if reply.problem == "value":
            raise ValueError(reply.message)
        raise ServiceError(reply.message)
    raise ServiceError(f"the curriculum's server answered with {type(reply).__name__}, which does not fit the question")
