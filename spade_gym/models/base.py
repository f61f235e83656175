"""What a language model is asked, what it answers, and the protocol that every engine speaks.

One loop drives them all: ``submit`` as many requests as there are, ``collect`` those that are done. An engine with
continuous batching, one that computes fixed batches, and a server with concurrent calls differ only in when a
completion comes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from spade_gym.errors import SpadeError

if TYPE_CHECKING:
    from spade_gym.models.chat import ChatFormat

Role = Literal["system", "user", "assistant", "tool"]
Finish = Literal["stop", "length", "error"]

_FINISHES = frozenset(get_args(Finish))
_MOST_TOKENS = 2**31 - 1


class ModelError(SpadeError):
    """A model that cannot be opened or reached, or a request that it cannot take; the message names the remedy."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a chat.

    Attributes:
        role: Who speaks; ``tool`` is the result of one tool call.
        content: Text.
    """

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn (method, section 7: the defaults).

    Attributes:
        max_tokens: Most new tokens, at least 1.
        temperature: 0 (greedy) or positive.
        top_p: In (0, 1]; 1 is off.
        top_k: Most candidates a token; 0 is off.
        stop: Texts after which a completion ends; they are part of it.
    """

    max_tokens: int = 8192
    temperature: float = 0.6
    top_p: float = 0.95
    top_k: int = 20
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse values that no engine can take."""
        if self.max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1, got {self.max_tokens}")
        if not 0 <= self.temperature < 100:
            raise ValueError(f"temperature must be 0 (greedy) or positive and below 100, got {self.temperature}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1 (off), got {self.top_p}")
        if self.top_k < 0:
            raise ValueError(f"top_k must be 0 (off) or positive, got {self.top_k}")
        if isinstance(self.stop, str) or not all(self.stop):
            raise ValueError(f"stop must be a tuple of texts that are not empty, got {self.stop!r}")


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One completion to be sampled.

    Attributes:
        key: Names the request; unique among those in flight, and the same when a run is repeated.
        messages: The whole conversation, for engines that make their own tokens.
        sampling: How to draw.
        seed: Seeds this completion alone: what it is does not depend on the requests beside it.
        prompt_ids: The conversation as token ids, for engines that take them; ``None`` for servers.
        tools: Tool schemas in OpenAI form; already part of ``prompt_ids``.
        thinking: Whether the model may think first; ``None`` leaves it to its template.
    """

    key: str
    messages: tuple[Message, ...]
    sampling: Sampling
    seed: int
    prompt_ids: tuple[int, ...] | None = None
    tools: tuple[Mapping[str, Any], ...] = ()
    thinking: bool | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model answered.

    Attributes:
        key: The request's.
        text: The sampled text, think block included, without special tokens at its end. Tool calls of servers that
            return them apart are put back as ``<tool_call>{…}</tool_call>``.
        finish: ``stop`` (its own end or a stop text), ``length`` (cut off: never to be acted on), or ``error``.
        ids: The sampled token ids, end token included; ``None`` where the server does not say.
        logprobs: Of each id under softmax(logits / temperature), before top-p and top-k (greedy: temperature 1).
        kept_logprobs: Of each id under the distribution that was drawn from, after top-p and top-k.
        prompt_tokens: Tokens of the prompt; 0 where the server does not say.
        completion_tokens: Tokens sampled; 0 where the server does not say.
        policy_version: Of the weights that sampled it, as counted by ``update_weights``.
        error: What went wrong when ``finish`` is ``error``; a failure of the model or its server, of nobody else.
        seconds: From submission to completion.

    Raises:
        ModelError: The end is none of the three, or a number of tokens is below 0 or beyond 2^31 - 1.
    """

    key: str
    text: str
    finish: Finish
    ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    kept_logprobs: tuple[float, ...] | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    policy_version: int = 0
    error: str = ""
    seconds: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what an engine cannot have meant: a wrong end would be acted on."""
        if self.finish not in _FINISHES:
            raise ModelError(f"completion {self.key!r}: finish must be stop, length or error, got {self.finish!r}")
        if not (0 <= self.prompt_tokens <= _MOST_TOKENS and 0 <= self.completion_tokens <= _MOST_TOKENS):
            raise ModelError(
                f"completion {self.key!r}: numbers of tokens must be from 0 to {_MOST_TOKENS}, got "
                f"prompt_tokens={self.prompt_tokens!r} and completion_tokens={self.completion_tokens!r}"
            )


class LanguageModel(Protocol):
    """An engine.

    Attributes:
        name: For reports and manifests: the engine and its weights.
        chat_format: Turns chats into token ids; ``None`` where the server does it.
        max_context: Most tokens of a prompt and its completion together; ``None`` where unknown.
    """

    name: str
    chat_format: ChatFormat | None
    max_context: int | None

    def submit(self, request: ModelRequest) -> None:
        """Take a request; returns at once.

        Raises:
            ModelError: It cannot be taken (an unsupported setting, a prompt beyond the context).
        """

    def collect(self) -> list[Completion]:
        """Wait until at least one completion is there and return all that are; ``[]`` when nothing is in flight."""

    def close(self) -> None:
        """Give up what is in flight and free the engine."""
