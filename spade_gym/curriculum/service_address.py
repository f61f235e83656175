"""Where a curriculum's server listens, as one text that fits into keyword arguments.

``unix:<path>`` is protected by the permissions of the socket's file; ``tcp:127.0.0.1:<port>/<token>`` by a random
token, which every client must say first. The token is a secret: keep such an address out of logs and command lines.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import socket
import tempfile
from pathlib import Path
from typing import NamedTuple

_TCP = re.compile(r"tcp:127\.0\.0\.1:(\d{1,5})(?:/([0-9a-f]{0,64}))?")
_UNIX_PATH_BYTES = 100


class Address(NamedTuple):
    """A parsed address.

    Attributes:
        path: Of a Unix socket; "" for loopback.
        port: Of the loopback interface; 0 for a free one.
        token: Secret of a loopback server.
    """

    path: str
    port: int = 0
    token: str = ""

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read an address.

        Raises:
            ValueError: It is none.
        """
        if isinstance(text, str) and text.startswith("unix:") and len(text) > len("unix:"):
            return cls(text.removeprefix("unix:"))
        match = _TCP.fullmatch(text) if isinstance(text, str) else None
        if match is None or int(match[1]) > 65535:
            raise ValueError(
                f"a curriculum's address is 'unix:<path>' or 'tcp:127.0.0.1:<port>/<token>', got {text!r}; "
                "take CurriculumServer(...).address"
            )
        return cls("", int(match[1]), match[2] or "")

    @property
    def text(self) -> str:
        """The whole address, with the token."""
        return f"unix:{self.path}" if self.path else f"tcp:127.0.0.1:{self.port}/{self.token}"

    @property
    def shown(self) -> str:
        """The address without the token, for messages."""
        return f"unix:{self.path}" if self.path else f"tcp:127.0.0.1:{self.port}"

    def connect(self, timeout_seconds: float) -> socket.socket:
        """Return a socket connected to the server.

        Raises:
            OSError: Nobody listens.
        """
        if not self.path:
            connection = socket.create_connection(("127.0.0.1", self.port), timeout_seconds)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(timeout_seconds)
            connection.connect(self.path)
        except OSError:
            connection.close()
            raise
        return connection


def fresh() -> Address:
    """Return an address for a new server: a Unix socket in a private folder that is made for it, else loopback."""
    if hasattr(socket, "AF_UNIX"):
        folder = tempfile.mkdtemp(prefix="spade-")
        if len(folder.encode()) < _UNIX_PATH_BYTES:
            return Address(f"{folder}/socket")
        Path(folder).rmdir()
    return Address("", 0, secrets.token_hex(16))


def listen(address: Address) -> tuple[socket.socket, Address]:
    """Return a listening socket, and the address with the port that was chosen.

    A socket file that a dead server left is replaced.

    Raises:
        OSError: A server listens there already, or the place cannot be used.
    """
    if address.path:
        return _listen_unix(address.path), address
    server = socket.create_server(("127.0.0.1", address.port), backlog=512)
    token = address.token or secrets.token_hex(16)
    return server, Address("", server.getsockname()[1], token)


def _listen_unix(path: str) -> socket.socket:
    if Path(path).is_socket():
        with contextlib.suppress(ConnectionRefusedError), Address(path).connect(1.0):
            raise OSError(f"another server listens at unix:{path}")
        Path(path).unlink()
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        server.bind(path)
        Path(path).chmod(0o600)  # nobody can connect before listen()
        server.listen(512)
    except OSError as error:
        server.close()
        raise OSError(f"cannot listen at unix:{path}: {error}") from error
    return server
