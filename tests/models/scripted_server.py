"""A real HTTP server on loopback whose answers are scripted; it has no model."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Seen(NamedTuple):
    """A call as it arrived."""

    path: str
    headers: Mapping[str, str]
    body: Any
    at: float
    connection: int


Behaviour = Callable[["Handler"], None]


class Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, behaviours: list[Behaviour], context: ssl.SSLContext | None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.context = context
        self.behaviours = behaviours
        self.seen: list[Seen] = []
        self.lock = threading.Lock()
        self.now = 0
        self.most = 0

    @property
    def url(self) -> str:
        return f"{'https' if self.context else 'http'}://127.0.0.1:{self.server_address[1]}/v1"

    def finish_request(self, request: Any, client_address: Any) -> None:
        if self.context is None:
            super().finish_request(request, client_address)
            return
        with self.context.wrap_socket(request, server_side=True) as encrypted:
            super().finish_request(encrypted, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients that hang up are part of the tests."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        with server.lock:
            server.seen.append(Seen(self.path, dict(self.headers), body, time.monotonic(), self.client_address[1]))
            behaviour = server.behaviours.pop(0) if len(server.behaviours) > 1 else server.behaviours[0]
            server.now += 1
            server.most = max(server.most, server.now)
        try:
            behaviour(self)
        finally:
            with server.lock:
                server.now -= 1

    def do_GET(self) -> None:
        self.send_error(405)

    def log_message(self, format: str, *args: Any) -> None:
        """Stay quiet."""

    def reply(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def completion(content: str | None = "hello", *, finish_reason: str | None = "stop", **message: Any) -> dict[str, Any]:
    """Return a chat completion as a server writes it."""
    return {
        "id": "x",
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content, **message},
                "finish_reason": finish_reason,
            }
        ],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    }


def ok(content: str | None = "hello", **parts: Any) -> Behaviour:
    return answer(200, completion(content, **parts))


def answer(status: int, body: Any, headers: Mapping[str, str] | None = None) -> Behaviour:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda handler: handler.reply(status, data, headers)


def after(seconds: float, behaviour: Behaviour) -> Behaviour:
    def wait(handler: Handler) -> None:
        time.sleep(seconds)
        behaviour(handler)

    return wait


def hang_up(handler: Handler) -> None:
    """Close the connection without a word."""
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


def truncated(handler: Handler) -> None:
    """Promise more bytes than are sent."""
    body = json.dumps(completion()).encode()
    handler.close_connection = True
    handler.reply(200, body[:-20], {"Content-Length": str(len(body))})


def truncated_chunks(handler: Handler) -> None:
    """End a chunked body in its middle."""
    handler.close_connection = True
    handler.reply(200, b'20\r\n{"choices"', {"Transfer-Encoding": "chunked", "Content-Length": "0"})


def chunk(size: str, piece: bytes, *, times: int = 1) -> Behaviour:
    """Return a behaviour that sends a chunk of a size that need not be one, and a piece again and again."""

    def send(handler: Handler) -> None:
        handler.close_connection = True
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(size.encode() + b"\r\n")
        for _ in range(times):
            handler.wfile.write(piece)

    return send


def echo_in_status_line(handler: Handler) -> None:
    """Answer with what ought to be a status line, and is the header that holds the key."""
    handler.close_connection = True
    handler.wfile.write(b"x" * 380 + handler.headers["Authorization"].encode() + b"\r\n\r\n")


def dribble(handler: Handler) -> None:
    """Send a byte now and then, for as long as somebody listens."""
    handler.close_connection = True
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    for _ in range(600):
        handler.wfile.write(b" ")
        handler.wfile.flush()
        time.sleep(0.05)


def endless(handler: Handler) -> None:
    """Send a body without a length and without an end."""
    handler.close_connection = True
    handler.send_response(200)
    handler.send_header("Connection", "close")
    handler.end_headers()
    while True:
        handler.wfile.write(b" " * 65536)


def no_http(handler: Handler) -> None:
    handler.close_connection = True
    handler.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n")


@contextmanager
def serving(*behaviours: Behaviour, context: ssl.SSLContext | None = None) -> Iterator[Server]:
    """Serve: each call gets the next behaviour, the last one for ever; encrypted where there is a context."""
    with Server(list(behaviours), context) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
