"""Chats with engines that make their own tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spade_gym.models.base import Completion, Message, ModelError, ModelRequest, Sampling
from spade_gym.models.sample import Sample


class TextChat:
    """A chat of messages alone; the same calls as ``Chat``.

    Args:
        messages: The first ones.
        tools: Schemas in OpenAI form.
        thinking: Whether the model may think first; ``None`` leaves it to its server.

    Raises:
        ValueError: There is no message, or the last one is an answer.
    """

    def __init__(
        self, messages: Sequence[Message], *, tools: Sequence[Mapping[str, Any]] = (), thinking: bool | None = None
    ) -> None:
        check_start(messages)
        self._messages = list(messages)
        self._tools = tuple(tools)
        self._thinking = thinking
        self._num_tokens = 0

    @property
    def messages(self) -> tuple[Message, ...]:
        """Everything that was said."""
        return tuple(self._messages)

    @property
    def num_tokens(self) -> int:
        """Tokens of the last prompt and its completion, as reported; 0 before the first. Nothing is estimated."""
        return self._num_tokens

    def request(self, key: str, sampling: Sampling, seed: int) -> ModelRequest:
        """Return the request for the next answer.

        Raises:
            ValueError: The last message is an answer.
        """
        check_answer_due(self._messages)
        return ModelRequest(key, self.messages, sampling, seed, tools=self._tools, thinking=self._thinking)

    def complete(self, completion: Completion) -> None:
        """Append an answer.

        Raises:
            ModelError: The completion failed.
            ValueError: The last message is an answer.
        """
        check_answer_due(self._messages)
        check_completion(completion)
        self._messages.append(Message("assistant", completion.text))
        self._num_tokens = completion.prompt_tokens + completion.completion_tokens

    def observe(self, messages: Sequence[Message]) -> None:
        """Append what the model is told next.

        Raises:
            ValueError: There is no message, one is an answer, or an answer is due.
        """
        check_observed(self._messages, messages)
        self._messages.extend(messages)

    def samples(self) -> tuple[Sample, ...]:
        """Return nothing: the server does not say which tokens it sampled."""
        return ()


def check_start(messages: Sequence[Message]) -> None:
    """Refuse first messages that ask for no answer.

    Raises:
        ValueError: There is no message, or the last one is an answer.
    """
    if not messages:
        raise ValueError("a chat starts with at least one message, got none")
    if messages[-1].role == "assistant":
        raise ValueError("the last of a chat's first messages is an answer; end them with a user or tool message")


def check_answer_due(messages: Sequence[Message]) -> None:
    """Refuse an answer to an answer.

    Raises:
        ValueError: The last message is an answer.
    """
    if messages[-1].role == "assistant":
        raise ValueError("the last message is an answer; call observe(messages) before the next one")


def check_observed(before: Sequence[Message], messages: Sequence[Message]) -> None:
    """Refuse messages that do not follow an answer.

    Raises:
        ValueError: There is no message, one is an answer, or an answer is due.
    """
    if before[-1].role != "assistant":
        raise ValueError("an answer is due; call complete(completion) before observe(messages)")
    if not messages:
        raise ValueError("observe takes at least one message, got none")
    if any(message.role == "assistant" for message in messages):
        raise ValueError("observe takes user, tool or system messages, got an answer; answers come by complete()")


def check_completion(completion: Completion) -> None:
    """Refuse a completion that failed.

    Raises:
        ModelError: Its ``finish`` is ``error``.
    """
    if completion.finish == "error":
        raise ModelError(
            f"the completion {completion.key!r} failed ({completion.error}); it has no place in a chat: ask again, or "
            "end the play as aborted"
        )
