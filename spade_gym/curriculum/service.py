"""Serves one curriculum to many actor processes.

The server is a thread of the process that holds the curriculum. Each round it takes all questions that have arrived,
and lets a durable curriculum write what they told in one commit before anybody is answered. When an actor's connection
ends, the tickets that it asked for and has not told of are given up (``aborted``).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, NoReturn, Protocol

from spade_gym.curriculum.client import Client, ServiceError
from spade_gym.curriculum.curriculum import Receipt
from spade_gym.curriculum.service_address import Address, fresh, listen
from spade_gym.curriculum.service_loop import Loop
from spade_gym.curriculum.task import Outcome, Ticket

__all__ = ["AsksAndTells", "Client", "Cost", "CurriculumServer", "ServiceError"]

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
        self._process_id = os.getpid()
        wanted = fresh() if address is None else Address.parse(address)
        self._made_folder = address is None and bool(wanted.path)
        if self._made_folder:
            weakref.finalize(self, _remove, Path(wanted.path).parent, self._process_id)
        listener, self._address = listen(wanted)
        self._loop = Loop(curriculum, listener, self._address.token)
        self._closed = False
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_Abandon(self._loop))
        self._thread = threading.Thread(target=self._loop.run, name="spade-curriculum", daemon=True)
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
            receipt: Receipt = curriculum.tell(outcome)
            self._loop.desk.told(outcome)
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
        with self._loop.lock:
            yield self._curriculum

    @property
    def num_actors(self) -> int:
        """Clients that are connected now."""
        return len(self._loop.actors)

    @property
    def cost(self) -> Cost:
        """What serving has cost so far."""
        return Cost(self._loop.desk.num_asks, self._loop.desk.num_outcomes, self._loop.cpu_seconds)

    def close(self) -> None:
        """Stop serving; harmless when repeated. Tickets that are out stay pending.

        Raises:
            ServiceError: The server had stopped by itself, because of an error in it.
        """
        if self._closed or self._process_id != os.getpid():
            return
        self._closed = True
        self._loop.stop()
        self._thread.join(_STOP_SECONDS)
        if self._address.path:
            with contextlib.suppress(OSError):
                Path(self._address.path).unlink()
        if self._made_folder:
            _remove(Path(self._address.path).parent, self._process_id)
        if self._loop.failure is not None:
            raise ServiceError(f"the curriculum's server had stopped: {self._loop.failure}") from self._loop.failure

    def __enter__(self) -> CurriculumServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a CurriculumServer cannot be sent to another process; give that process server.address")


def _remove(folder: Path, process_id: int) -> None:
    """Remove the socket's folder, unless this is a fork of the process that made it."""
    if os.getpid() == process_id:
        shutil.rmtree(folder, ignore_errors=True)


class _Abandon:
    """Calls ``abandon`` of a loop that still exists; hooks of ``os.register_at_fork`` can never be removed."""

    def __init__(self, loop: Loop) -> None:
        self._loop = weakref.ref(loop)

    def __call__(self) -> None:
        loop = self._loop()
        if loop is not None:
            loop.abandon()
