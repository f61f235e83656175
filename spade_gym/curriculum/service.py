"""Serves one curriculum to many actor processes.

The server is a thread of the process that holds the curriculum. Each round it takes all questions that have arrived,
and lets a durable curriculum write what they told in one commit before anybody is answered. When an actor's connection
ends, the tickets that it asked for and has not told of are given up (``aborted``).
"""

from __future__ import annotations

import contextlib
import hmac
import logging
import os
import selectors
import shutil
import socket
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, NoReturn, Protocol

import msgspec

from spade_gym.curriculum import service_frames as frames
from spade_gym.curriculum.client import Client, ServiceError
from spade_gym.curriculum.curriculum import Receipt
from spade_gym.curriculum.service_address import Address, fresh, listen
from spade_gym.curriculum.service_desk import Desk, Holder
from spade_gym.curriculum.task import Outcome, Ticket

__all__ = ["AsksAndTells", "Client", "Cost", "CurriculumServer", "ServiceError"]

logger = logging.getLogger(__name__)

_READ_BYTES = 1 << 16
_STOP_SECONDS = 10.0


class AsksAndTells(Protocol):
    """A curriculum as actors see it: a ``Curriculum``, a ``DurableCurriculum``, a ``Client`` or a server."""

    def ask(self, actor: str = "") -> Ticket:
        """Return the next ticket."""

    def tell(self, outcome: Outcome) -> Receipt:
        """Learn how a play went."""

    @property
    def return_range(self) -> tuple[float, float]:
        """The declared range of returns."""


class Cost(NamedTuple):
    """What serving has cost so far.

    Attributes:
        num_asks: Questions for a ticket.
        num_outcomes: Outcomes told.
        cpu_seconds: Processor time of the server's thread, the curriculum's work included.
    """

    num_asks: int
    num_outcomes: int
    cpu_seconds: float


class _Actor(Holder):
    """One connection."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__()
        self.connection = connection
        self.incoming = bytearray()
        self.outgoing = bytearray()
        self.welcome = False
        self.ended = False


class CurriculumServer:
    """Serves a curriculum while it is open.

    The process that made the server uses the curriculum through it (``ask``, ``tell``, ``locked``); all others through
    ``Client(server.address)``. Kill the server's process at any moment: clients get a clear error and keep what they
    could not tell; with a ``DurableCurriculum`` every outcome for which ``tell`` had returned is kept.

    Args:
        curriculum: A ``Curriculum`` or ``DurableCurriculum``; closing it is left to its owner.
        address: Where to listen (see ``service_address``), to be the same after a restart; absent: a Unix socket in a
            new private folder, else loopback with a random token.

    Raises:
        ValueError: The address is none.
        OSError: Something listens there already, or the place cannot be used.
    """

    def __init__(self, curriculum: Any, *, address: str | None = None) -> None:
        self._curriculum = curriculum
        self._desk = Desk(curriculum)
        self._process_id = os.getpid()
        wanted = fresh() if address is None else Address.parse(address)
        self._made_folder = address is None and bool(wanted.path)
        if self._made_folder:
            weakref.finalize(self, _remove, Path(wanted.path).parent, self._process_id)
        self._listener, self._address = listen(wanted)
        self._listener.setblocking(False)
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._lock = threading.RLock()
        self._actors: dict[socket.socket, _Actor] = {}
        self._cpu_seconds = 0.0
        self._stopping = False
        self._closed = False
        self._failure: BaseException | None = None
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake_reader, selectors.EVENT_READ)
        os.register_at_fork(after_in_child=_Abandon(self))
        self._thread = threading.Thread(target=self._serve, name="spade-curriculum", daemon=True)
        self._thread.start()

    # ---- for the process that holds it

    @property
    def address(self) -> str:
        """What ``Client`` needs; a text. On loopback it holds the token."""
        return self._address.text

    def ask(self, actor: str = "") -> Ticket:
        """Return the next ticket to somebody in this process."""
        with self.locked() as curriculum:
            ticket: Ticket = curriculum.ask(actor)
            return ticket

    def tell(self, outcome: Outcome) -> Receipt:
        """Learn how a play in this process went."""
        with self.locked() as curriculum:
            self._desk.told(outcome)
            receipt: Receipt = curriculum.tell(outcome)
            return receipt

    @property
    def return_range(self) -> tuple[float, float]:
        """The curriculum's declared range of returns."""
        low, high = self._curriculum.return_range
        return low, high

    @contextmanager
    def locked(self) -> Iterator[Any]:
        """Give the curriculum while no actor is served: to look at it, add tasks or save it.

        Raises:
            ServiceError: This is another process than the one that made the server.
        """
        if self._process_id != os.getpid():
            raise ServiceError(f"this server lives in process {self._process_id}; use Client(address) in others")
        with self._lock:
            yield self._curriculum

    @property
    def num_actors(self) -> int:
        """Clients that are connected now."""
        return len(self._actors)

    @property
    def cost(self) -> Cost:
        """What serving has cost so far."""
        return Cost(self._desk.num_asks, self._desk.num_outcomes, self._cpu_seconds)

    def close(self) -> None:
        """Stop serving; harmless when repeated. Tickets that are out stay pending.

        Raises:
            ServiceError: The server had stopped by itself, because of an error in it.
        """
        if self._closed or self._process_id != os.getpid():
            return
        self._closed = self._stopping = True
        self._wake_writer.send(b".")
        self._thread.join(_STOP_SECONDS)
        if self._address.path:
            with contextlib.suppress(OSError):
                Path(self._address.path).unlink()
        if self._made_folder:
            _remove(Path(self._address.path).parent, self._process_id)
        if self._failure is not None:
            raise ServiceError(f"the curriculum's server had stopped: {self._failure}") from self._failure

    def __enter__(self) -> CurriculumServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a CurriculumServer cannot be sent to another process; give that process server.address")

    # ---- the thread

    def _serve(self) -> None:
        try:
            while not self._stopping:
                events = self._selector.select()
                with self._lock:
                    self._round([(key.fileobj, mask) for key, mask in events])
                self._cpu_seconds = time.thread_time()
        except BaseException as error:
            logger.exception("the curriculum's server stopped")
            self._failure = error
        finally:
            self._hang_up()

    def _round(self, events: list[tuple[Any, int]]) -> None:
        """Read all that has come, answer it, and only then send: what was told is durable before anybody hears so."""
        with self._batch():
            for place, mask in events:
                if place is self._listener:
                    self._accept()
                elif place in self._actors and mask & selectors.EVENT_READ:
                    self._read(self._actors[place])
        for place, _ in events:
            if place in self._actors:
                self._send(self._actors[place])

    @contextmanager
    def _batch(self) -> Iterator[None]:
        """Let a durable curriculum commit once; if it cannot, nobody gets an answer of this round but the error."""
        waiting = {actor: len(actor.outgoing) for actor in self._actors.values()}
        try:
            with getattr(self._curriculum, "batch", contextlib.nullcontext)():
                yield
        except Exception as error:
            logger.exception("the curriculum failed")
            failed = frames.frame(frames.Failed("failed", f"the curriculum failed: {error}"))
            for actor in self._actors.values():
                if len(actor.outgoing) > waiting.get(actor, 0):
                    actor.outgoing[waiting.get(actor, 0) :] = failed

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionAbortedError):
            connection, _ = self._listener.accept()
            connection.setblocking(False)
            if not self._address.path:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._actors[connection] = _Actor(connection)
            self._selector.register(connection, selectors.EVENT_READ)

    def _read(self, actor: _Actor) -> None:
        try:
            data = actor.connection.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._drop(actor)
            return
        actor.incoming += data
        while not actor.ended and (body := self._next_body(actor)) is not None:
            self._answer(actor, body)

    def _next_body(self, actor: _Actor) -> bytes | None:
        buffer = actor.incoming
        if len(buffer) < frames.LENGTH_BYTES:
            return None
        end = frames.LENGTH_BYTES + int.from_bytes(buffer[: frames.LENGTH_BYTES], "little")
        if end > (frames.MAX_FRAME_BYTES if actor.welcome else frames.MAX_HELLO_BYTES):
            self._refuse(actor, f"a frame of {end} bytes is too long")
            return None
        if len(buffer) < end:
            return None
        body = bytes(buffer[frames.LENGTH_BYTES : end])
        del buffer[:end]
        return body

    def _answer(self, actor: _Actor, body: bytes) -> None:
        try:
            request = frames.decode_request(body)
        except msgspec.DecodeError as error:
            self._refuse(actor, f"a frame that cannot be read: {error}")
            return
        if isinstance(request, frames.Hello):
            self._greet(actor, request)
        elif not actor.welcome:
            self._refuse(actor, "the first frame must be a hello with the server's token")
        elif isinstance(request, frames.Ask):
            actor.outgoing += self._desk.hand_out(actor, request.actor)
        else:
            actor.outgoing += self._desk.take(request)

    def _greet(self, actor: _Actor, hello: frames.Hello) -> None:
        if hello.version != frames.PROTOCOL_VERSION:
            self._refuse(actor, f"this server speaks version {frames.PROTOCOL_VERSION}, the client {hello.version}")
        elif not hmac.compare_digest(hello.token.encode(), self._address.token.encode()):
            self._refuse(actor, "wrong token: take the address from CurriculumServer(...).address")
        else:
            actor.welcome = True
            actor.outgoing += frames.frame(frames.Welcome(*self._curriculum.return_range))

    def _refuse(self, actor: _Actor, message: str) -> None:
        logger.warning("a client was refused: %s", message)
        actor.outgoing += frames.frame(frames.Failed("protocol", message))
        actor.ended = True

    def _send(self, actor: _Actor) -> None:
        if actor.outgoing:
            try:
                sent = actor.connection.send(actor.outgoing)
            except BlockingIOError:
                sent = 0
            except OSError:
                with self._batch():
                    self._drop(actor)
                return
            del actor.outgoing[:sent]
        if actor.ended and not actor.outgoing:
            with self._batch():
                self._drop(actor)
            return
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if actor.outgoing else 0)
        if self._selector.get_key(actor.connection).events != wanted:
            self._selector.modify(actor.connection, wanted)

    def _drop(self, actor: _Actor) -> None:
        self._selector.unregister(actor.connection)
        del self._actors[actor.connection]
        actor.connection.close()
        self._desk.give_up(actor)

    def _hang_up(self) -> None:
        with self._lock:
            for connection in [*self._actors, self._listener, self._wake_reader, self._wake_writer]:
                connection.close()
            self._actors.clear()
            self._selector.close()

    def _abandon(self) -> None:
        """Close, in a forked child, what keeps clients from noticing that the server's process is gone."""
        for connection in [*self._actors, self._listener, self._wake_reader, self._wake_writer]:
            connection.close()
        self._actors.clear()


def _remove(folder: Path, process_id: int) -> None:
    """Remove the socket's folder, unless this is a fork of the process that made it."""
    if os.getpid() == process_id:
        shutil.rmtree(folder, ignore_errors=True)


class _Abandon:
    """Calls ``_abandon`` of a server that still exists; hooks of ``os.register_at_fork`` can never be removed."""

    def __init__(self, server: CurriculumServer) -> None:
        self._server = weakref.ref(server)

    def __call__(self) -> None:
        server = self._server()
        if server is not None:
            server._abandon()
