"""How an OpenAI-compatible server is to be spoken to."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from spade_gym.models.base import ModelError

#: What becomes of the think blocks of earlier turns: left out, left in the text, or sent as ``reasoning_content``.
Thoughts = Literal["drop", "text", "field"]
#: Which log-probabilities the server gives: none are asked for, those of temperature 1, or those after all sampling.
ServerLogprobs = Literal["none", "raw", "processed"]
#: Who stops at stop texts, and whether they are part of the text.
StopTexts = Literal["here", "kept", "dropped"]


@dataclass(frozen=True, slots=True)
class OpenAISettings:
    """Settings of :class:`~spade_gym.models.openai_model.OpenAIModel`; none of them is a secret.

    Attributes:
        concurrency: Most calls at once, from 1 to 1024.
        timeout_seconds: Longest time of one try, from connecting to the last byte.
        connect_seconds: Longest time until a connection stands.
        max_retries: Most further tries after a failure that may pass; refusals for too high a rate do not count.
        patience_seconds: No try is begun later than this after the first.
        backoff_seconds: First wait between tries; it doubles up to one minute and is jittered by the request's key.
        requests_per_minute: Most calls begun in a minute, evenly spaced; ``None`` for as many as the server takes.
        api_key_env: Environment variable that holds the key; "" for a server that wants none.
        key_over_plain_http: Whether the key may go to another machine without encryption.
        max_context: Most tokens of a prompt and its completion; ``None`` where unknown.
        max_body_bytes: Longest answer that is read.
        max_tokens_field: The server's name for ``max_tokens`` (newer OpenAI models: ``max_completion_tokens``).
        thinking_switch: Key of ``chat_template_kwargs`` that turns thinking on and off; "" where there is no such
            switch: requests that ask for it are then refused.
        thoughts_in_history: What becomes of the think blocks of earlier turns.
        token_ids: Whether to ask for token ids (``return_token_ids``, vLLM).
        stop_texts: Who stops at stop texts. Most servers drop the text at which they stopped and do not say which it
            was. ``here``: they are not sent, and the answer is cut after the first one (the server may have gone on
            for a while). ``kept``: they are sent, and the server keeps them (``include_stop_str_in_output``, vLLM).
            ``dropped``: they are sent, and missing at the end of the text unless the server names them.
        server_logprobs: Which log-probabilities the server gives; needs ``token_ids``.
        omit: Names of fields that the server does not take, for example ``("top_k", "seed")`` for OpenAI's own.
        extra_body: Further fields of the request's body, for example those that switch a server's defaults off.
    """

    concurrency: int = 32
    timeout_seconds: float = 600.0
    connect_seconds: float = 10.0
    max_retries: int = 6
    patience_seconds: float = 900.0
    backoff_seconds: float = 1.0
    requests_per_minute: float | None = None
    api_key_env: str = "OPENAI_API_KEY"
    key_over_plain_http: bool = False
    max_context: int | None = None
    max_body_bytes: int = 64 * 1024 * 1024
    max_tokens_field: str = "max_tokens"
    thinking_switch: str = "enable_thinking"
    thoughts_in_history: Thoughts = "drop"
    token_ids: bool = False
    stop_texts: StopTexts = "here"
    server_logprobs: ServerLogprobs = "none"
    omit: tuple[str, ...] = ()
    extra_body: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse values that cannot work."""
        if not 1 <= self.concurrency <= 1024:
            raise ModelError(f"concurrency must be from 1 to 1024, got {self.concurrency!r}")
        if self.max_retries < 0:
            raise ModelError(f"max_retries must be 0 or more, got {self.max_retries!r}")
        for name in ("timeout_seconds", "connect_seconds", "patience_seconds", "backoff_seconds", "max_body_bytes"):
            if not getattr(self, name) > 0:
                raise ModelError(f"{name} must be positive, got {getattr(self, name)!r}")
        for name in ("requests_per_minute", "max_context"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ModelError(f"{name} must be positive or None, got {value!r}")
        self._check_choices()

    def _check_choices(self) -> None:
        choices = (("thoughts_in_history", Thoughts), ("server_logprobs", ServerLogprobs), ("stop_texts", StopTexts))
        for name, allowed in choices:
            if getattr(self, name) not in get_args(allowed):
                raise ModelError(f"{name} must be one of {', '.join(get_args(allowed))}, got {getattr(self, name)!r}")
        if self.server_logprobs != "none" and not self.token_ids:
            raise ModelError(
                "server_logprobs needs token_ids=True: a log-probability without its token's id is of no use"
            )
        if isinstance(self.omit, str):
            raise ModelError(f"omit must be a tuple of names of fields, got {self.omit!r}")
        fixed = {"model", "messages", "stream", "n"} & {*self.omit, *self.extra_body}
        if fixed:
            raise ModelError(f"omit and extra_body cannot change {', '.join(sorted(fixed))}")

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> OpenAISettings:
        """Make settings of names and values.

        Raises:
            ModelError: A name is unknown, or a value cannot work.
        """
        known = [item.name for item in fields(cls)]
        for name in settings:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                ask = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(known)}"
                raise ModelError(f"OpenAIModel has no setting {name!r}{ask}")
        return cls(**settings)
