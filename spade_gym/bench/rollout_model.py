"""A model that answers at once, and a tokenizer of bytes: what is left of a rollout's time is the rollout's own.

Nothing here says anything about a real model. The replies are fixed; the tokenizer writes chats in the ChatML form, one
id a byte, so a chat has about four times the ids that a real tokenizer would give it.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from spade_gym.models.base import Completion, ModelRequest
from spade_gym.models.chat import ChatFormat

_START, _END = "<|im_start|>", "<|im_end|>"
_SPECIAL = {_START: 256, _END: 257}
_PIECES = re.compile("(" + "|".join(map(re.escape, _SPECIAL)) + ")")


class AddedToken(NamedTuple):
    """A token that stands for a text of its own."""

    content: str
    special: bool = True


class ByteTokenizer:
    """One id a byte, and two for the beginning and the end of a message."""

    name_or_path = "bytes"
    eos_token_id = _SPECIAL[_END]

    @property
    def added_tokens_decoder(self) -> Mapping[int, AddedToken]:
        """The two special tokens by their ids."""
        return {number: AddedToken(text) for text, number in _SPECIAL.items()}

    def apply_chat_template(
        self, conversation: Any, *, tokenize: bool = False, add_generation_prompt: bool = False, **settings: Any
    ) -> Any:
        """Render messages as ChatML."""
        text = "".join(f"{_START}{message['role']}\n{message['content']}{_END}\n" for message in conversation)
        text += f"{_START}assistant\n" if add_generation_prompt else ""
        return self.encode(text) if tokenize else text

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        """Return the ids of a text."""
        ids: list[int] = []
        for piece in _PIECES.split(text):
            ids.extend((_SPECIAL[piece],) if piece in _SPECIAL else piece.encode())
        return ids

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """Return the text of ids."""
        names = {number: b"" if skip_special_tokens else text.encode() for text, number in _SPECIAL.items()}
        return b"".join(names[number] if number in names else bytes((number,)) for number in token_ids).decode()


class FixedReplyModel:
    """Answers every request with the same text.

    Args:
        reply: The text.
        token_exact: Whether chats are token ids.
        seconds: How long ``collect`` takes.
        batch: Completions that one ``collect`` returns at most; ``None`` for all.

    Attributes:
        seconds_spent: Time spent in ``collect`` so far.
    """

    name = "fixed reply"
    max_context: int | None = None

    def __init__(self, reply: str, *, token_exact: bool, seconds: float = 0.0, batch: int | None = None) -> None:
        self.chat_format = ChatFormat(ByteTokenizer()) if token_exact else None
        self.seconds_spent = 0.0
        self._reply = reply
        self._ids = (*reply.encode(), ByteTokenizer.eos_token_id) if token_exact else None
        self._logprobs = None if self._ids is None else (-0.5,) * len(self._ids)
        self._seconds = seconds
        self._batch = batch
        self._waiting: deque[ModelRequest] = deque()

    def submit(self, request: ModelRequest) -> None:
        """Take a request."""
        self._waiting.append(request)

    def collect(self) -> list[Completion]:
        """Answer what waits."""
        start = time.perf_counter()
        if self._seconds and self._waiting:
            time.sleep(self._seconds)
        count = min(self._batch or len(self._waiting), len(self._waiting))
        answers = [self._answer(self._waiting.popleft()) for _ in range(count)]
        self.seconds_spent += time.perf_counter() - start
        return answers

    def _answer(self, request: ModelRequest) -> Completion:
        return Completion(
            key=request.key,
            text=self._reply,
            finish="stop",
            ids=self._ids,
            logprobs=self._logprobs,
            kept_logprobs=self._logprobs,
            prompt_tokens=len(request.prompt_ids or ()),
            completion_tokens=len(self._ids or ()),
        )

    def close(self) -> None:
        """Forget what waits."""
        self._waiting.clear()
