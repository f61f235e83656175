"""Which failures of a server may pass, how long to wait before the next try, and what is said about them."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import re
import ssl
import time
from email.message import Message as Headers
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote

import msgspec

from spade_gym.models.base import ModelError
from spade_gym.models.openai_link import Address, Answer, BodyTooLong
from spade_gym.models.openai_settings import OpenAISettings

#: Longest wait between two tries that the server did not ask for.
MAX_BACKOFF_SECONDS = 60.0

_PASSING = frozenset({408, 409, 425, 429, 529, *range(500, 600)} - {501, 505})
_SHOWN_CHARS = 400
_LONGEST_ASKED_WAIT = 1e9
_OPENAI_KEY = re.compile(r"\bsk-[A-Za-z0-9_*-]{4,}")


class ServerFailure(ModelError):
    """A try that failed.

    Attributes:
        may_pass: Whether another try may do better.
        too_fast: Whether the server refused the rate of the calls.
        wait_seconds: How long the server asked to wait; ``None`` where it did not.
    """

    def __init__(
        self, message: str, *, may_pass: bool, too_fast: bool = False, wait_seconds: float | None = None
    ) -> None:
        super().__init__(message)
        self.may_pass = may_pass
        self.too_fast = too_fast
        self.wait_seconds = wait_seconds


class Key:
    """The key in an environment variable: read when it is needed, never kept.

    Args:
        settings: Name the variable.
        address: Where the key would go.
    """

    def __init__(self, settings: OpenAISettings, address: Address) -> None:
        self._variable = settings.api_key_env
        self._may_travel = address.secure or address.stays_here or settings.key_over_plain_http
        self._shown = address.shown

    def headers(self) -> dict[str, str]:
        """Return the header that holds the key, or none where there is no key.

        Raises:
            ModelError: The key cannot stand in a header, or would cross the network in plain text.
        """
        key = self._read()
        if not key:
            return {}
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise ModelError(f"the key in {self._variable} holds characters that a key cannot hold; set it anew")
        if not self._may_travel:
            raise ModelError(
                f"the key in {self._variable} would go to {self._shown} unencrypted. Use https, or set api_key_env='' "
                "for a server that wants no key (or the name of another variable), or key_over_plain_http=True"
            )
        return {"Authorization": f"Bearer {key}"}

    def hide(self, text: str) -> str:
        """Return a text without the key (as it is, or quoted as texts in errors are), and without what looks like one.

        What is cut must be hidden before: the beginning of a key is no longer found.
        """
        key = self._read()
        if key:
            for form in (key, repr(key)[1:-1], json.dumps(key)[1:-1], quote(key, safe="")):
                text = text.replace(form, "[key]")
        return _OPENAI_KEY.sub("[key]", text)

    def shown(self, text: str) -> str:
        """Return what a server said as the part of an error: without the key, on one line, and cut."""
        return _shown(self.hide(text))

    @property
    def remedy(self) -> str:
        """What to do when the server refuses the key."""
        if not self._variable:
            return "the server wants a key: name its environment variable in api_key_env"
        state = "is set, but was refused" if self._read() else "is not set"
        return f"the environment variable {self._variable} (api_key_env) {state}"

    def _read(self) -> str:
        return os.environ.get(self._variable, "").strip() if self._variable else ""


def failure_of_status(answer: Answer, key: Key) -> ServerFailure:
    """Describe an answer whose status is not 200."""
    status = answer.status
    said = error_text(answer.body, key)
    text = f"the server answered {status} {http.client.responses.get(status, '')}".rstrip()
    if 300 <= status < 400:
        target = key.shown(answer.headers.get("Location", "").split("?")[0])
        return ServerFailure(
            f"{text}, a redirect to {target!r}; redirects are not followed: give that base URL", may_pass=False
        )
    hints = {401: key.remedy, 403: key.remedy, 404: "is the model's name right, and does the base URL end in /v1?"}
    hint = f" ({hints[status]})" if status in hints else ""
    spent = status == 429 and "insufficient_quota" in said
    return ServerFailure(
        f"{text}{': ' if said else ''}{said}{hint}",
        may_pass=status in _PASSING and not spent,
        too_fast=status == 429 and not spent,
        wait_seconds=asked_wait(answer.headers),
    )


def failure_of_connection(error: Exception, *, address: Address, settings: OpenAISettings, key: Key) -> ServerFailure:
    """Describe a connection that could not be made, broke, took too long, or brought no HTTP."""
    where = address.shown
    if isinstance(error, TimeoutError):
        return ServerFailure(f"no answer from {where} within {settings.timeout_seconds:g} s", may_pass=True)
    if isinstance(error, BodyTooLong):
        return ServerFailure(
            f"the answer of {where} is too long ({error}; max_body_bytes={settings.max_body_bytes})", may_pass=False
        )
    if isinstance(error, ssl.SSLCertVerificationError):
        return ServerFailure(f"the certificate of {where} is not trusted: {error.verify_message}", may_pass=False)
    if isinstance(error, http.client.IncompleteRead):
        return ServerFailure(f"the answer of {where} stopped short", may_pass=True)
    detail = key.shown(str(error)) or "no further detail"
    return ServerFailure(f"the connection to {where} failed: {type(error).__name__}: {detail}", may_pass=True)


def error_text(body: bytes, key: Key) -> str:
    """Return what a server says about an error, on one line and without the key; it is untrusted text."""
    try:
        data: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return key.shown(body.decode("utf-8", "replace"))
    error = data.get("error", data) if isinstance(data, dict) else data
    if isinstance(error, dict):
        said = error.get("message") or error.get("detail") or error
        code = error.get("code")
        error = f"{said} [{code}]" if isinstance(code, str) and code not in str(said) else said
    return key.shown(str(error))


def asked_wait(headers: Headers) -> float | None:
    """Return the seconds of a ``Retry-After`` header (a number, or a date), or ``None`` without a valid one."""
    value = (headers.get("Retry-After") or "").strip()
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", value):
        return float(value)
    try:
        return min(max(0.0, parsedate_to_datetime(value).timestamp() - time.time()), _LONGEST_ASKED_WAIT)
    except (ValueError, OverflowError):
        return None


def backoff(settings: OpenAISettings, *, key: str, num_failures: int) -> float:
    """Return the wait before the next try: doubled with each failure, jittered by the request's key.

    The jitter (a factor from 0.5 to 1) depends on the key and the count alone: a repeated run waits alike.
    """
    digest = hashlib.sha256(f"{key}\0{num_failures}".encode("utf-8", "replace")).digest()
    share = int.from_bytes(digest[:8], "little") / 2**64
    whole = min(settings.backoff_seconds * 2.0 ** min(num_failures - 1, 30), MAX_BACKOFF_SECONDS)
    return whole * (0.5 + share / 2)


def _shown(text: str) -> str:
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * _SHOWN_CHARS]).split())
    return line if len(line) <= _SHOWN_CHARS else line[:_SHOWN_CHARS] + "…"
