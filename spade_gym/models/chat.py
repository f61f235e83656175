"""Chats whose token ids are exactly those that the model saw and sampled.

A chat only appends: an answer adds the ids that were sampled, never a text encoded again, and the messages after it add
what the chat template writes there. Where a template leaves out earlier thinking (Qwen3), a new sample begins at that
point: its prompt holds the sampled ids of earlier answers without their thinking, as the model saw them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from spade_gym.models.base import Completion, LanguageModel, Message, ModelError, ModelRequest, Sampling
from spade_gym.models.chat_delta import Delta, Piece, rendered_piece
from spade_gym.models.chat_template import ChatTemplate, TurnTemplate
from spade_gym.models.chat_text import TextChat, check_answer_due, check_completion, check_observed, check_start
from spade_gym.models.chat_thinking import answer_start
from spade_gym.models.chat_tokens import ChatTokenizer, TokenEncoder
from spade_gym.models.chat_turns import Turns
from spade_gym.models.sample import Sample

__all__ = ["Chat", "ChatFormat", "ChatTokenizer", "TextChat", "chat_format_of", "start_chat"]

#: Tool lists whose first prompts are kept encoded; one more drops the oldest.
_MAX_OPENINGS = 512

Tools = Sequence[Mapping[str, Any]]


def start_chat(
    model: LanguageModel, messages: Sequence[Message], *, tools: Tools = (), thinking: bool | None = None
) -> Chat | TextChat:
    """Start a chat with a model: of token ids where its engine takes them, else of messages.

    Args:
        model: The engine.
        messages: The first ones; the last is not an answer.
        tools: Schemas in OpenAI form.
        thinking: Whether the model may think first; ``None`` leaves it to its template.

    Raises:
        ModelError: The chat template cannot render this.
        ValueError: There is no message, or the last one is an answer.
    """
    if model.chat_format is None:
        return TextChat(messages, tools=tools, thinking=thinking)
    return model.chat_format.start(messages, tools=tools, thinking=thinking)


def chat_format_of(tokenizer: Any, *, keep_thinking: bool = False) -> ChatFormat | None:
    """Return how a tokenizer of transformers writes chats; ``None`` for one without a chat template."""
    if not getattr(tokenizer, "chat_template", None):
        return None
    return ChatFormat(tokenizer, keep_thinking=keep_thinking)


class ChatFormat:
    """Turns chats into token ids, as a tokenizer's chat template has them.

    What messages say never becomes a control token (``chat_tokens.py``). Templates that write the date write a fixed
    one. The answers in first messages may hold think and tool tags, which are then tokens.

    Args:
        tokenizer: Of the model; one of transformers, or anything with the four members of ``ChatTokenizer``.
        keep_thinking: Leave earlier thinking in the prompt even where the template leaves it out: then a chat is one
            sample, but not what the template's authors had in mind.

    Attributes:
        digest: sha256 of the tokenizer, its template and ``keep_thinking``: equal digests, equal ids.

    Raises:
        ModelError: The tokenizer has no chat template, or one that changes what was written before.
    """

    def __init__(self, tokenizer: ChatTokenizer, *, keep_thinking: bool = False) -> None:
        self.encoder = TokenEncoder(tokenizer)
        self.keep_thinking = keep_thinking
        self._template = ChatTemplate(tokenizer)
        decisive = (self.encoder.digest, str(getattr(tokenizer, "chat_template", "")), str(keep_thinking))
        self.digest = hashlib.sha256("\0".join(decisive).encode()).hexdigest()
        self._turns: dict[tuple[bool, bool | None], Turns] = {}
        self._openings: dict[tuple[object, ...], Delta | None] = {}
        self.turns(tools=False, thinking=None).following(("user",))

    def start(self, messages: Sequence[Message], *, tools: Tools = (), thinking: bool | None = None) -> Chat:
        """Start a chat.

        Args:
            messages: The first ones; the last is not an answer.
            tools: Schemas in OpenAI form.
            thinking: Whether the model may think first, for templates that know ``enable_thinking``; ``None`` says
                nothing to the template.

        Raises:
            ModelError: The template refuses or leaves out these messages, or is not prefix-stable with such tools.
            ValueError: There is no message, or the last one is an answer.
        """
        check_start(messages)
        turns = self.turns(tools=bool(tools), thinking=thinking)
        contents = [message.content for message in messages]
        delta = self._opening([message.role for message in messages], tools, turns)
        piece = delta.piece(contents) if delta is not None else self._rendered(messages, tools, thinking)
        return Chat(turns, messages, piece, tools, thinking)

    def turns(self, *, tools: bool, thinking: bool | None) -> Turns:
        """Return what a chat with such settings adds turn by turn."""
        key = (tools, thinking)
        if key not in self._turns:
            template = TurnTemplate(self._template, self.encoder, tools=tools, thinking=thinking)
            self._turns[key] = Turns(template, self.encoder, self.keep_thinking)
        return self._turns[key]

    def _opening(self, roles: Sequence[str], tools: Tools, turns: Turns) -> Delta | None:
        if "assistant" in roles:
            return None
        key = (turns, tuple(roles), json.dumps(tools) if tools else "")
        if key not in self._openings:
            layout = turns.template.opening(roles, tools)
            if len(self._openings) >= _MAX_OPENINGS:
                del self._openings[next(iter(self._openings))]
            self._openings[key] = None if layout is None else Delta(layout, self.encoder)
        return self._openings[key]

    def _rendered(self, messages: Sequence[Message], tools: Tools, thinking: bool | None) -> Piece:
        roles = [message.role for message in messages]

        def render(contents: Sequence[str], generation: bool) -> str:
            pairs = list(zip(roles, contents, strict=True))
            return self._template.render(pairs, tools=tools, thinking=thinking, generation=generation)

        own = [role == "assistant" for role in roles]
        return rendered_piece(render, [message.content for message in messages], self.encoder, own=own)


class _Exchange(NamedTuple):
    """Messages and the answer to them, for prompts that leave out its thinking."""

    piece: Piece
    answer: tuple[int, ...]
    closing: list[int]


class Chat:
    """A chat of token ids; ``ChatFormat.start`` and ``start_chat`` make it.

    Args:
        turns: What is added turn by turn.
        messages: The first ones.
        piece: Their ids.
        tools: Schemas in OpenAI form.
        thinking: Whether the model may think first.
    """

    def __init__(
        self, turns: Turns, messages: Sequence[Message], piece: Piece, tools: Tools, thinking: bool | None
    ) -> None:
        self._turns = turns
        self._messages = list(messages)
        self._tools = tuple(tools)
        self._thinking = thinking
        self._piece = piece
        self._exchanges: list[_Exchange] = []
        self._history: list[int] = []
        self._ended: list[Sample] = []
        self._trainable = True
        self._begin([*piece.body, *piece.generation])

    @property
    def messages(self) -> tuple[Message, ...]:
        """Everything that was said, thinking included."""
        return tuple(self._messages)

    @property
    def num_tokens(self) -> int:
        """Tokens so far: the length of the next prompt."""
        return len(self._ids)

    def request(self, key: str, sampling: Sampling, seed: int) -> ModelRequest:
        """Return the request for the next answer, with the ids of its prompt.

        Raises:
            ValueError: The last message is an answer.
        """
        check_answer_due(self._messages)
        return ModelRequest(
            key, self.messages, sampling, seed, tuple(self._ids), tools=self._tools, thinking=self._thinking
        )

    def complete(self, completion: Completion) -> None:
        """Append an answer: its own ids and, where its end token was not sampled, the template's closing.

        An end token that is not the template's stays, as it was sampled, and the template's follows.

        Raises:
            ModelError: The completion failed, or its engine gave no ids, or not as many log-probabilities.
            ValueError: The last message is an answer.
        """
        check_answer_due(self._messages)
        check_completion(completion)
        ids = completion.ids
        if ids is None:
            raise ModelError(
                f"the completion {completion.key!r} came without the ids that were sampled; an engine with a "
                "chat_format must give them (Completion.ids), one that cannot must have chat_format None"
            )
        logprobs = _logprobs("logprobs", completion.logprobs, completion.key, len(ids))
        kept_logprobs = _logprobs("kept_logprobs", completion.kept_logprobs, completion.key, len(ids))
        self._trainable = self._trainable and None not in (completion.logprobs, completion.kept_logprobs)
        self._messages.append(Message("assistant", completion.text))
        self._ids += ids
        self._mask += [1] * len(ids)
        self._logprobs += logprobs
        self._kept_logprobs += kept_logprobs
        self._versions.append(completion.policy_version)
        closing = self._turns.closing
        missing = [] if closing and ids and ids[-1] == closing[-1] else closing
        self._append(missing)
        self._exchanges.append(_Exchange(self._piece, ids, missing))
        self._num_answered = len(self._ids)

    def observe(self, messages: Sequence[Message]) -> None:
        """Append what the model is told next, and what opens its answer.

        Raises:
            ModelError: The template refuses or leaves out such messages, or is not prefix-stable with them.
            ValueError: There is no message, one is an answer, or an answer is due.
        """
        check_observed(self._messages, messages)
        following, delta = self._turns.following(tuple(message.role for message in messages))
        self._piece = self._turns.piece(delta, messages)
        self._messages.extend(messages)
        if following.header is not None:
            self._leave_out_thinking(following.header)
        self._append(self._piece.body)
        self._append(self._piece.generation)

    def samples(self) -> tuple[Sample, ...]:
        """Return what can be trained on, each up to its last answer.

        One sample a chat; where earlier thinking was left out of a prompt, a new one from there on. Empty without an
        answer, and when the engine did not give all log-probabilities.
        """
        if not self._trainable:
            return ()
        current = self._sample()
        return tuple(self._ended) if current is None else (*self._ended, current)

    # ---- ids

    def _begin(self, ids: list[int]) -> None:
        self._ids = ids
        self._mask = [0] * len(ids)
        self._logprobs = [0.0] * len(ids)
        self._kept_logprobs = [0.0] * len(ids)
        self._versions: list[int] = []
        self._num_answered = 0

    def _append(self, ids: Sequence[int]) -> None:
        self._ids += ids
        self._mask += [0] * len(ids)
        self._logprobs += [0.0] * len(ids)
        self._kept_logprobs += [0.0] * len(ids)

    def _leave_out_thinking(self, header: str) -> None:
        """Begin a new sample if earlier answers look different without their thinking."""
        for piece, answer, closing in self._exchanges:
            self._history += piece.body
            self._history += self._turns.header(piece, header)
            self._history += answer[answer_start(answer, self._turns.encoder) :]
            self._history += closing
        self._exchanges.clear()
        if self._history == self._ids:
            return
        if (sample := self._sample()) is not None:
            self._ended.append(sample)
        self._begin(list(self._history))

    def _sample(self) -> Sample | None:
        end = self._num_answered
        if not end:
            return None
        return Sample(
            tuple(self._ids[:end]), tuple(self._mask[:end]), tuple(self._logprobs[:end]),
            tuple(self._kept_logprobs[:end]), tuple(self._versions),
        )  # fmt: skip


def _logprobs(name: str, values: Sequence[float] | None, key: str, count: int) -> Sequence[float]:
    """Return log-probabilities of ids; zeros to fill their places where none are known (then no sample is given)."""
    if values is None:
        return [0.0] * count
    if len(values) != count:
        raise ModelError(
            f"the completion {key!r} has {count} ids but {len(values)} {name}; its engine must give one for each id, "
            "the end token included"
        )
    return values
