"""How a curriculum's server reads, answers and lets go of its clients."""

from __future__ import annotations

import contextlib
import hmac
import logging
import selectors
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from spade_gym.curriculum import service_frames as frames
from spade_gym.curriculum.service_desk import Desk, Holder

logger = logging.getLogger(__name__)

_READ_BYTES = 1 << 16
_BREATH_SECONDS = 0.05


class _Actor(Holder):
    """One connection."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__()
        self.connection = connection
        self.incoming = bytearray()
        self.outgoing = bytearray()
        self.welcome = False
        self.ended = False


class Loop:
    """Answers clients in rounds, in a thread of its own.

    Args:
        curriculum: A ``Curriculum`` or ``DurableCurriculum``.
        listener: Where clients connect.
        token: What they must say first; "" for nothing.

    Attributes:
        desk: Asks and tells for them.
        lock: Held while a round is answered.
        actors: Clients that are connected.
        cpu_seconds: Processor time of the thread so far.
        failure: What ended it, if not ``stop``.
    """

    def __init__(self, curriculum: Any, listener: socket.socket, token: str) -> None:
        self.desk = Desk(curriculum)
        self.lock = threading.RLock()
        self.actors: dict[socket.socket, _Actor] = {}
        self.cpu_seconds = 0.0
        self.failure: BaseException | None = None
        self._token = token
        self._stopping = False
        self._listener = listener
        self._listener.setblocking(False)
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake_reader, selectors.EVENT_READ)

    def run(self) -> None:
        """Serve until ``stop`` is called; an error in the server itself ends it and stands in ``failure``."""
        try:
            while not self._stopping:
                events = self._selector.select()
                with self.lock:
                    self._round([(key.fileobj, mask) for key, mask in events])
                self.cpu_seconds = time.thread_time()
        except BaseException as error:
            logger.exception("the curriculum's server stopped")
            self.failure = error
        finally:
            self._hang_up()

    def _round(self, events: list[tuple[Any, int]]) -> None:
        """Read all that has come, answer it, and only then send: what was told is durable before anybody hears so."""
        with self._batch():
            for place, mask in events:
                if place is self._listener:
                    self._accept()
                elif place in self.actors and mask & selectors.EVENT_READ:
                    self._read(self.actors[place])
        for place, _ in events:
            if place in self.actors:
                self._send(self.actors[place])

    @contextmanager
    def _batch(self) -> Iterator[None]:
        """Let a durable curriculum commit once; if it cannot, nobody gets an answer of this round but the error."""
        waiting = {actor: len(actor.outgoing) for actor in self.actors.values()}
        try:
            with getattr(self.desk.curriculum, "batch", contextlib.nullcontext)():
                yield
        except Exception as error:
            logger.exception("the curriculum failed")
            failed = frames.frame(frames.Failed("failed", f"the curriculum failed: {error}"))
            for actor in self.actors.values():
                if len(actor.outgoing) > waiting.get(actor, 0):
                    actor.outgoing[waiting.get(actor, 0) :] = failed

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError as error:  # too many open files, most often
            logger.warning("a client could not be let in: %s", error)
            time.sleep(_BREATH_SECONDS)
            return
        connection.setblocking(False)
        if self._token:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.actors[connection] = _Actor(connection)
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
            actor.outgoing += self.desk.hand_out(actor, request.actor)
        else:
            actor.outgoing += self.desk.take(request)

    def _greet(self, actor: _Actor, hello: frames.Hello) -> None:
        if hello.version != frames.PROTOCOL_VERSION:
            self._refuse(actor, f"this server speaks version {frames.PROTOCOL_VERSION}, the client {hello.version}")
        elif not hmac.compare_digest(hello.token.encode(), self._token.encode()):
            self._refuse(actor, "wrong token: take the address from CurriculumServer(...).address")
        else:
            actor.welcome = True
            actor.outgoing += frames.frame(frames.Welcome(*self.desk.curriculum.return_range))

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
        del self.actors[actor.connection]
        actor.connection.close()
        self.desk.give_up(actor)

    def stop(self) -> None:
        """Let ``run`` end; to be called from another thread."""
        self._stopping = True
        with contextlib.suppress(OSError):  # it may have ended by itself
            self._wake_writer.send(b".")

    def _hang_up(self) -> None:
        with self.lock:
            for connection in [*self.actors, self._listener, self._wake_reader, self._wake_writer]:
                connection.close()
            self.actors.clear()
            self._selector.close()

    def abandon(self) -> None:
        """Close, in a forked child, what keeps clients from noticing that the server's process is gone."""
        for connection in [*self.actors, self._listener, self._wake_reader, self._wake_writer]:
            connection.close()
        self.actors.clear()
