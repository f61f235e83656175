"""A language model whose answers are a function of the request; it samples nothing and needs no engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from spade_gym.models.base import Completion, ModelError, ModelRequest

#: What a script may answer: a text, a whole completion (its key is put right), or a refusal to be raised.
Answer = str | Completion | ModelError
Script = Callable[[ModelRequest], Answer]


class ScriptedModel:
    """Answers every request by calling a script.

    A text that is longer than ``sampling.max_tokens`` (a character is a token) is cut and finishes by ``length``.
    Prompt ids and sampled ids are code points, so that tests can read them.

    Args:
        script: From a request to its answer; or texts, handed out in the order of submission.
        batch: Completions that one ``collect`` returns at most; ``None`` for all.
        newest_first: Return completions in the reverse order of submission, as servers may.

    Attributes:
        requests: Every request, in the order of submission.
        closed: Whether ``close`` was called.
    """

    name = "scripted"
    chat_format = None

    def __init__(
        self,
        script: Script | Iterable[str],
        *,
        batch: int | None = None,
        newest_first: bool = False,
        max_context: int | None = None,
    ) -> None:
        self._script = script if callable(script) else _in_order(script)
        self._batch = batch
        self._newest_first = newest_first
        self._pending: list[Completion] = []
        self.max_context = max_context
        self.requests: list[ModelRequest] = []
        self.closed = False

    def submit(self, request: ModelRequest) -> None:
        """Answer at once; the completion waits for ``collect``."""
        if any(pending.key == request.key for pending in self._pending):
            raise ModelError(f"a request with the key {request.key!r} is in flight")
        self.requests.append(request)
        answer = self._script(request)
        if isinstance(answer, ModelError):
            raise answer
        self._pending.append(_completion(request, answer))

    def collect(self) -> list[Completion]:
        """Return what is waiting."""
        if self._newest_first:
            self._pending.reverse()
        ready = self._pending[: self._batch]
        self._pending = self._pending[len(ready) :]
        if self._newest_first:
            self._pending.reverse()
        return ready

    def close(self) -> None:
        """Forget what is waiting."""
        self._pending, self.closed = [], True


def last_user_text(request: ModelRequest) -> str:
    """Return the text of the last message that is not the model's own."""
    return next(message.content for message in reversed(request.messages) if message.role != "assistant")


def _in_order(texts: Iterable[str]) -> Script:
    remaining = iter(texts)

    def script(request: ModelRequest) -> str:
        text = next(remaining, None)
        if text is None:
            raise AssertionError(f"the script has no text left for the request {request.key!r}")
        return text

    return script


def _completion(request: ModelRequest, answer: str | Completion) -> Completion:
    if isinstance(answer, Completion):
        return Completion(**{field: getattr(answer, field) for field in Completion.__slots__} | {"key": request.key})
    limit = request.sampling.max_tokens
    text = answer[:limit]
    ids = tuple(map(ord, text))
    return Completion(
        key=request.key,
        text=text,
        finish="length" if len(answer) > limit else "stop",
        ids=ids,
        logprobs=(-1.0,) * len(ids),
        kept_logprobs=(-0.5,) * len(ids),
        prompt_tokens=sum(len(message.content) for message in request.messages),
        completion_tokens=len(ids),
    )
