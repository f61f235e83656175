"""A model behind any server with the OpenAI interface for chat completions, over HTTP.

Each of ``concurrency`` threads makes one call at a time over a connection that it keeps; the standard library is all
it needs. Answers come whole (no streaming). The server makes the tokens: ``chat_format`` is ``None``.
"""

from __future__ import annotations

import http.client
import queue
import threading
import time
from typing import Any, NamedTuple

from spade_gym.models.base import Completion, ModelError, ModelRequest
from spade_gym.models.openai_answer import read_answer
from spade_gym.models.openai_failures import Key, ServerFailure, backoff, failure_of_connection
from spade_gym.models.openai_link import Address, BodyTooLong, Link
from spade_gym.models.openai_request import request_body
from spade_gym.models.openai_settings import OpenAISettings
from spade_gym.storable import storable

_PATH = "/chat/completions"
_CLOSE_SECONDS = 1.0


class OpenAIModel:
    """Asks a server; satisfies :class:`~spade_gym.models.base.LanguageModel`.

    A failure that may pass (a refused rate, a 5xx status, a broken connection, a timeout, an answer that stops short)
    is tried again after a while; what remains is a completion with ``finish="error"``. The key is read from the
    environment for each call and kept nowhere.

    Args:
        base_url: For example ``http://127.0.0.1:8000/v1``.
        model: The server's name of the model.
        settings: Of :class:`~spade_gym.models.openai_settings.OpenAISettings`.

    Raises:
        ModelError: The base URL, a setting or the key cannot work.
    """

    chat_format = None

    def __init__(self, base_url: str, model: str, **settings: Any) -> None:
        if not model:
            raise ModelError(f"the model's name is empty: write openai:{base_url}#MODEL")
        if storable(model) != model:
            raise ModelError(f"the model's name {model!r} is no text: it holds characters that UTF-8 does not have")
        self.settings = OpenAISettings.of(settings)
        self.model = model
        self.max_context = self.settings.max_context
        self._address = Address.parse(base_url)
        self.name = f"openai:{self._address.shown}#{model}"
        self._key = Key(self.settings, self._address)
        self._key.headers()  # refused now rather than at the first call
        self._pace = _Pace(self.settings.requests_per_minute)
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Completion | _Mistake] = queue.SimpleQueue()
        self._in_flight: set[str] = set()
        self._threads: list[threading.Thread] = []
        self._links: list[Link] = []
        self._closed = threading.Event()

    def __repr__(self) -> str:
        return f"OpenAIModel({self._address.shown!r}, {self.model!r})"

    def submit(self, request: ModelRequest) -> None:
        """Take a request; returns at once.

        Raises:
            ModelError: The server has no way to do what is asked, the key is already in flight, or it is closed.
        """
        if self._closed.is_set():
            raise ModelError(f"{self.name} is closed")
        if request.key in self._in_flight:
            raise ModelError(f"a request with the key {request.key!r} is already in flight")
        body = request_body(request, model=self.model, settings=self.settings)
        self._in_flight.add(request.key)
        self._jobs.put(_Job(request, body, time.monotonic()))
        if len(self._threads) < min(self.settings.concurrency, len(self._in_flight)):
            self._start_thread()

    def collect(self) -> list[Completion]:
        """Wait until at least one completion is there and return all that are; ``[]`` when nothing is in flight."""
        completions: list[Completion] = []
        while self._in_flight and not (completions and self._done.empty()):
            item = self._done.get()
            self._in_flight.discard(item.key)
            if isinstance(item, _Mistake):
                raise item.error
            completions.append(item)
        return completions

    def close(self) -> None:
        """Give up what is in flight and disconnect; a server may go on computing for a while. May be called twice."""
        self._closed.set()
        for link in self._links:
            link.abort()
            self._jobs.put(None)
        end = time.monotonic() + _CLOSE_SECONDS
        for thread in self._threads:  # one that still looks a name up, or connects, ends by itself
            thread.join(max(0.0, end - time.monotonic()))
        self._in_flight.clear()

    # ---- in the threads

    def _start_thread(self) -> None:
        link = Link(
            self._address,
            connect_seconds=self.settings.connect_seconds,
            max_body_bytes=self.settings.max_body_bytes,
        )
        self._links.append(link)
        thread = threading.Thread(target=self._work, args=(link,), name=f"openai-{len(self._threads)}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self, link: Link) -> None:
        while (job := self._jobs.get()) is not None and not self._closed.is_set():
            try:
                self._done.put(self._complete(job, link))
            except Exception as error:  # no failure of the server: collect raises it, rather than wait for ever
                self._done.put(_Mistake(job.request.key, error))
        link.close()

    def _complete(self, job: _Job, link: Link) -> Completion:
        """Try until there is a completion, or no further try is due."""
        began = time.monotonic()
        num_failures = num_counted = 0
        while True:
            try:
                return self._try(job, link)
            except ServerFailure as failure:
                last = failure
            num_failures += 1
            num_counted += not last.too_fast
            wait = backoff(self.settings, key=job.request.key, num_failures=num_failures)
            if last.wait_seconds is not None:
                wait += last.wait_seconds
                self._pace.pause(min(last.wait_seconds, self.settings.patience_seconds))
            late = time.monotonic() + wait - began > self.settings.patience_seconds
            if not last.may_pass or num_counted > self.settings.max_retries or late or self._closed.wait(wait):
                return self._failed(job, last, num_failures, late=late)

    def _try(self, job: _Job, link: Link) -> Completion:
        while (wait := self._pace.next_wait()) > 0:
            if self._closed.wait(wait):
                raise ServerFailure("the model was closed", may_pass=False)
        deadline = time.monotonic() + self.settings.timeout_seconds
        try:
            headers = {"Content-Type": "application/json", "Accept": "application/json", **self._key.headers()}
            answer = link.post(_PATH, job.body, headers, deadline=deadline)
        except (OSError, http.client.HTTPException, BodyTooLong) as error:
            raise failure_of_connection(error, address=self._address, settings=self.settings, key=self._key) from error
        reading = read_answer(answer, sampling=job.request.sampling, settings=self.settings, key=self._key)
        return Completion(job.request.key, seconds=time.monotonic() - job.submitted, **reading._asdict())

    def _failed(self, job: _Job, failure: ServerFailure, num_tries: int, *, late: bool) -> Completion:
        """Return the completion that tells of a failure: the only way by which its text leaves, without the key."""
        tries = f" ({num_tries} tries)" if num_tries > 1 else ""
        waited = f"; the server asks to wait for {failure.wait_seconds:g} s" if late and failure.wait_seconds else ""
        return Completion(
            job.request.key,
            text="",
            finish="error",
            error=storable(self._key.hide(f"{failure}{waited}{tries}")),
            seconds=time.monotonic() - job.submitted,
        )


class _Job(NamedTuple):
    """A request, its body, and when it was submitted."""

    request: ModelRequest
    body: bytes
    submitted: float


class _Mistake(NamedTuple):
    """What went wrong on this side while a request was worked on."""

    key: str
    error: Exception


class _Pace:
    """When the next call may begin, for all threads together."""

    def __init__(self, per_minute: float | None) -> None:
        self._interval = 60.0 / per_minute if per_minute else 0.0
        self._lock = threading.Lock()
        self._next = 0.0

    def next_wait(self) -> float:
        """Take the next turn and return 0.0, or return the seconds until there may be one."""
        with self._lock:
            now = time.monotonic()
            if now < self._next:
                return self._next - now
            self._next = now + self._interval
            return 0.0

    def pause(self, seconds: float) -> None:
        """Begin no call for a while, because the server asked for it."""
        with self._lock:
            self._next = max(self._next, time.monotonic() + seconds)
