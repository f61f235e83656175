"""One connection to an HTTP server: kept alive between calls, with a deadline for each call as a whole.

``http.client`` alone knows no deadline: its timeout starts anew with every byte that arrives. Here every wait for the
socket is cut to what is left, and another thread can end a call at any time (``Link.abort``). Redirects are not
followed: the key would go to whoever is named there.
"""

from __future__ import annotations

import http.client
import io
import ipaddress
import socket
import ssl
import time
from email.message import Message as Headers
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

from spade_gym.errors import SpadeError
from spade_gym.models.base import ModelError

_PIECE_BYTES = 65536


class Address(NamedTuple):
    """Where a server listens.

    Attributes:
        secure: Whether the connection is encrypted (``https``).
        host: Name or number of the machine.
        port: From 1 to 65535.
        path: Begin of every path, without a slash at its end.
    """

    secure: bool
    host: str
    port: int
    path: str

    @classmethod
    def parse(cls, base_url: str) -> Address:
        """Read a base URL such as ``https://api.openai.com/v1``.

        Raises:
            ModelError: It is none, or holds a user name, password, query or fragment.
        """
        example = "an example is http://127.0.0.1:8000/v1"
        if not (base_url.isascii() and base_url.isprintable()) or " " in base_url:
            raise ModelError(f"a base URL holds printable ASCII characters only, got {base_url!r}; {example}")
        try:
            parts = urlsplit(base_url)
            port = parts.port
        except ValueError as error:
            raise ModelError(f"{base_url!r} is no base URL ({error}); {example}") from error
        if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
            raise ModelError(
                "a base URL must not hold a user name, password, query or fragment (it is shown in reports): "
                f"keys belong into an environment variable; {example}"
            )
        if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
            raise ModelError(f"{base_url!r} is no base URL with http or https and a host; {example}")
        secure = parts.scheme == "https"
        return cls(secure, parts.hostname, port or (443 if secure else 80), parts.path.rstrip("/"))

    @property
    def stays_here(self) -> bool:
        """Whether the server is on this machine."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def shown(self) -> str:
        """The address as text."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}{self.path}"


class Answer(NamedTuple):
    """What a server answered: status, headers, and the whole body."""

    status: int
    headers: Headers
    body: bytes


class BodyTooLong(SpadeError):
    """An answer that is longer than what is read."""


class Link:
    """One connection; used by one thread, ended by any.

    Args:
        address: Of the server.
        connect_seconds: Longest time until the connection stands.
        max_body_bytes: Longest answer that is read.
    """

    def __init__(self, address: Address, *, connect_seconds: float, max_body_bytes: int) -> None:
        self._address = address
        self._connect_seconds = connect_seconds
        self._max_body_bytes = max_body_bytes
        self._connection: http.client.HTTPConnection | None = None
        self._timed: _TimedSocket | None = None
        self._socket: socket.socket | None = None
        self._aborted = False

    def post(self, path: str, body: bytes, headers: dict[str, str], *, deadline: float) -> Answer:
        """Send a body and return the answer.

        A connection that the server closed since the last call is renewed once.

        Args:
            path: After the address's own.
            body: What to send.
            headers: Without ``Host`` and ``Content-Length``.
            deadline: On the monotonic clock.

        Raises:
            TimeoutError: The deadline passed.
            OSError: No connection, or it broke.
            http.client.HTTPException: The answer is no HTTP, or stops short.
            BodyTooLong: The answer is too long.
        """
        reused = self._connection is not None
        try:
            return self._exchange(path, body, headers, deadline)
        except (OSError, http.client.HTTPException, BodyTooLong) as error:
            self.close()
            if not reused or not isinstance(error, BrokenPipeError | ConnectionResetError):
                raise
        try:
            return self._exchange(path, body, headers, deadline)
        except (OSError, http.client.HTTPException, BodyTooLong):
            self.close()
            raise

    def abort(self) -> None:
        """End the call that is under way, and every later one, with an error; for other threads."""
        self._aborted = True
        sock = self._socket
        if sock is not None:
            try:
                socket.socket.shutdown(sock, socket.SHUT_RDWR)
            except OSError:  # it was not connected, or is closed already
                return

    def close(self) -> None:
        """Disconnect; the next call connects again."""
        if self._connection is not None:
            self._connection.close()
        if self._socket is not None:
            self._socket.close()
        self._connection = self._timed = self._socket = None

    def _exchange(self, path: str, body: bytes, headers: dict[str, str], deadline: float) -> Answer:
        if self._connection is None or self._timed is None:
            self._connection, self._timed = self._connect(deadline)
        self._timed.deadline = deadline
        self._connection.request("POST", self._address.path + path, body, headers)
        try:
            response = self._connection.getresponse()
            data = self._read(response)
        except ValueError as error:  # http.client trusts some numbers of the server more than it should
            raise http.client.HTTPException(f"the answer is no HTTP ({error})") from error
        if response.will_close:
            self.close()
        return Answer(response.status, response.headers, data)

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        if (response.length or 0) > self._max_body_bytes:
            raise BodyTooLong(f"{response.length} bytes")
        data = bytearray()
        while piece := response.read(_PIECE_BYTES):
            data += piece
            if len(data) > self._max_body_bytes:
                raise BodyTooLong(f"more than {self._max_body_bytes} bytes")
        if response.length:  # until Python 3.13 a body that stops short reads like one that is complete
            raise http.client.IncompleteRead(b"", response.length)
        return bytes(data)

    def _connect(self, deadline: float) -> tuple[http.client.HTTPConnection, _TimedSocket]:
        address = self._address
        wait = min(self._connect_seconds, deadline - time.monotonic())
        if wait <= 0:
            raise TimeoutError("no time was left to connect")
        sock = self._socket = socket.create_connection((address.host, address.port), timeout=wait)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        kind: type[http.client.HTTPConnection] = http.client.HTTPConnection
        if address.secure:
            kind = http.client.HTTPSConnection
            sock = self._socket = ssl.create_default_context().wrap_socket(sock, server_hostname=address.host)
        if self._aborted:
            raise ConnectionAbortedError("the model was closed")
        connection = kind(address.host, address.port)
        connection.auto_open = 0  # a connection of its own would have no deadline
        timed = _TimedSocket(sock)
        connection.sock = cast(Any, timed)
        return connection, timed


class _TimedSocket:
    """What ``http.client`` needs of a socket; no wait goes beyond ``deadline``."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self.deadline = 0.0

    def _set_timeout(self) -> None:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the deadline passed")
        self._socket.settimeout(left)

    def sendall(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            self._set_timeout()
            view = view[self._socket.send(view) :]

    def receive_into(self, buffer: Any) -> int:
        self._set_timeout()
        return self._socket.recv_into(buffer)

    def makefile(self, mode: str) -> io.BufferedReader:
        return _Incoming(_Reader(self))

    def close(self) -> None:
        """Do nothing: ``http.client`` calls it before the body is read; ``Link.close`` closes the socket."""


class _Incoming(io.BufferedReader):
    """The answer as ``http.client`` reads it: never without a bound, whatever length the server names.

    ``http.client`` takes a chunk of -1 bytes for one, and would read it as "everything there is".
    """

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or size < 0:
            raise http.client.HTTPException(f"a part of the answer is {size} bytes long")
        return super().read(size)


class _Reader(io.RawIOBase):
    """The bytes that arrive at a timed socket."""

    def __init__(self, sock: _TimedSocket) -> None:
        self._timed = sock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._timed.receive_into(buffer)
