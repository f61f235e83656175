"""A model request as the JSON body of a chat-completions call.

Our chats hold tool calls as text (``<tool_call>{…}</tool_call>`` in the assistant's message, one ``tool`` message for
each result). The interface wants them apart, with ids that match. Where they cannot be matched one to one (a call
that is no JSON, a result without a call), that turn stays text: a request with calls that lack results is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from spade_gym.models.base import Message, ModelError, ModelRequest
from spade_gym.models.openai_settings import OpenAISettings, Thoughts

_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_THOUGHTS = re.compile(r"(?:<think>)?(.*?)</think>\s*", re.DOTALL)


def request_body(request: ModelRequest, *, model: str, settings: OpenAISettings) -> bytes:
    """Return the body of a chat-completions call.

    Raises:
        ModelError: The server has no way to do what is asked.
    """
    sampling = request.sampling
    body: dict[str, Any] = {
        "model": model,
        "messages": chat_messages(request.messages, thoughts=settings.thoughts_in_history),
        settings.max_tokens_field: sampling.max_tokens,
        "temperature": sampling.temperature,
        "seed": request.seed % 2**31,  # several servers keep 32 bits, some of them signed
        "stream": False,
    }
    if sampling.temperature > 0:
        body["top_p"] = sampling.top_p
        body["top_k"] = sampling.top_k  # 0 too: without it, servers take a default of theirs, or of the model's folder
    body |= _stop_fields(request, settings)
    if request.tools:
        body["tools"] = [dict(tool) for tool in request.tools]
    if request.thinking is not None:
        body["chat_template_kwargs"] = {_thinking_switch(settings): request.thinking}
    if settings.token_ids:
        body["return_token_ids"] = True
    if settings.server_logprobs != "none":
        _check_logprobs(request, settings)
        body["logprobs"] = True
    for name in settings.omit:
        body.pop(name, None)
    body.update(settings.extra_body)
    # A lone surrogate (an observation may hold one) has no place in UTF-8: it becomes "?".
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")


def chat_messages(messages: Sequence[Message], *, thoughts: Thoughts = "drop") -> list[dict[str, Any]]:
    """Return the messages of a chat in the interface's form.

    Args:
        messages: The chat.
        thoughts: What becomes of the assistant's think blocks.
    """
    result: list[dict[str, Any]] = []
    place = 0
    while place < len(messages):
        message = messages[place]
        place += 1
        if message.role == "assistant":
            num_results = _count_results(messages, place)
            result += _assistant_turn(message.content, messages[place : place + num_results], len(result), thoughts)
            place += num_results
        elif message.role == "tool":
            result.append(_result_as_text(message))
        else:
            result.append({"role": message.role, "content": message.content})
    return result


def _count_results(messages: Sequence[Message], start: int) -> int:
    end = start
    while end < len(messages) and messages[end].role == "tool":
        end += 1
    return end - start


def _assistant_turn(text: str, results: Sequence[Message], number: int, thoughts: Thoughts) -> list[dict[str, Any]]:
    """Return an assistant's message and the results that follow it; ``number`` makes the calls' ids unique."""
    thought, said = split_thoughts(text)
    extra: dict[str, Any] = {"reasoning_content": thought} if thoughts == "field" and thought else {}
    calls = _read_calls(said)
    if not calls or len(calls) != len(results):
        content = text if thoughts == "text" else said
        turn = {"role": "assistant", "content": content, **extra}
        return [turn, *(_result_as_text(result) for result in results)]
    ids = [f"call_{number}_{index}" for index in range(len(calls))]
    content = (text[: len(text) - len(said)] if thoughts == "text" else "") + _CALL.sub("", said).strip()
    turn = {
        "role": "assistant",
        "content": content,
        **extra,
        "tool_calls": [
            {"id": name, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for name, call in zip(ids, calls, strict=True)
        ],
    }
    return [
        turn,
        *(
            {"role": "tool", "tool_call_id": name, "content": result.content}
            for name, result in zip(ids, results, strict=True)
        ),
    ]


def split_thoughts(text: str) -> tuple[str, str]:
    """Split a completion into its think block (without the tags) and what follows; "" where there is none.

    A ``</think>`` without its opening tag ends a block that the prompt opened; a block that never ends is all thought.
    """
    match = _THOUGHTS.match(text)
    if match:
        return match[1], text[match.end() :]
    if text.startswith("<think>"):
        return text.removeprefix("<think>"), ""
    return "", text


class _Call(NamedTuple):
    """A tool call as the interface wants it: the arguments are JSON text."""

    name: str
    arguments: str


def _read_calls(text: str) -> list[_Call]:
    """Return the calls of a message, or none where one of them is not ``{"name": …, "arguments": {…}}``."""
    calls = []
    for block in _CALL.findall(text):
        try:
            data = json.loads(block)
        except (ValueError, RecursionError):
            return []
        if not (isinstance(data, dict) and set(data) == {"name", "arguments"} and isinstance(data["name"], str)):
            return []
        arguments = data["arguments"]
        if not isinstance(arguments, dict):
            return []
        calls.append(_Call(data["name"], json.dumps(arguments, ensure_ascii=False)))
    return calls


def _result_as_text(message: Message) -> dict[str, Any]:
    return {"role": "user", "content": f"<tool_response>\n{message.content}\n</tool_response>"}


def _stop_fields(request: ModelRequest, settings: OpenAISettings) -> dict[str, Any]:
    if not request.sampling.stop:
        return {}
    if settings.stop_texts != "here":
        fields: dict[str, Any] = {"stop": list(request.sampling.stop)}
        return fields | ({"include_stop_str_in_output": True} if settings.stop_texts == "kept" else {})
    if settings.token_ids:
        raise ModelError("token ids cannot be cut at a stop text: set stop_texts='kept', which vLLM's server knows")
    return {}


def _thinking_switch(settings: OpenAISettings) -> str:
    if not settings.thinking_switch:
        raise ModelError(
            "thinking cannot be turned on or off at this server: thinking_switch is ''. Ask with thinking=None, or "
            "name the key of chat_template_kwargs that does it (enable_thinking for Qwen3)"
        )
    return settings.thinking_switch


def _check_logprobs(request: ModelRequest, settings: OpenAISettings) -> None:
    if settings.server_logprobs == "raw" and request.sampling.temperature not in (0, 1):
        raise ModelError(
            "server_logprobs='raw' are those of temperature 1, but the request samples at temperature "
            f"{request.sampling.temperature:g}. Start vLLM with --logprobs-mode processed_logprobs and set "
            "server_logprobs='processed', or sample at temperature 1"
        )
