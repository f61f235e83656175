"""What a chat-completions server answered, checked and read.

Everything here is untrusted: types are checked by ``msgspec``, a server's mistake is a
:class:`~spade_gym.models.openai_failures.ServerFailure` and never becomes a text.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, NamedTuple

import msgspec

from spade_gym.models.base import Finish, Sampling
from spade_gym.models.openai_failures import Key, ServerFailure, error_text, failure_of_status
from spade_gym.models.openai_link import Answer
from spade_gym.models.openai_settings import OpenAISettings
from spade_gym.storable import storable

#: What servers call an end that the model or a stop text made, and a cut.
_STOPS = frozenset({"stop", "tool_calls", "function_call", "eos", "eos_token", "end_turn", "stop_sequence"})
_CUTS = frozenset({"length", "max_tokens", "model_length"})
#: Ends that are the server's doing: another try may end better.
_GIVEN_UP = frozenset({"abort", "error"})
#: No vocabulary and no context is as large.
_TOO_MANY = 2**31

_TokenId = Annotated[int, msgspec.Meta(ge=0, lt=_TOO_MANY)]


class _Function(msgspec.Struct):
    name: str
    arguments: str | dict[str, Any] | None = None


class _ToolCall(msgspec.Struct):
    function: _Function


class _Message(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_ToolCall] | None = None
    refusal: str | None = None


class _TokenLogprob(msgspec.Struct):
    logprob: float


class _Logprobs(msgspec.Struct):
    content: list[_TokenLogprob] | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    logprobs: _Logprobs | None = None
    token_ids: list[_TokenId] | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: Any = 0
    completion_tokens: Any = 0


class _Body(msgspec.Struct):
    choices: list[_Choice]
    usage: _Usage | None = None


class Reading(NamedTuple):
    """What an answer holds; the attributes are those of ``Completion``."""

    text: str
    finish: Finish
    ids: tuple[int, ...] | None
    logprobs: tuple[float, ...] | None
    kept_logprobs: tuple[float, ...] | None
    prompt_tokens: int
    completion_tokens: int


def read_answer(answer: Answer, *, sampling: Sampling, settings: OpenAISettings, key: Key) -> Reading:
    """Read a server's answer.

    Raises:
        ServerFailure: It is an error, or no chat completion.
    """
    if answer.status != 200:
        raise failure_of_status(answer, key)
    body = _decode(answer, key)
    if len(body.choices) != 1:
        raise ServerFailure(f"the server returned {len(body.choices)} choices, 1 was asked for", may_pass=False)
    choice = body.choices[0]
    finish = _finish(choice, key)
    text = _text(choice.message, cut=finish == "length")
    text, finish = _stopped(text, finish, choice.stop_reason, sampling=sampling, settings=settings)
    usage = body.usage or _Usage()
    ids, logprobs, kept = _tokens(choice, sampling=sampling, settings=settings)
    return Reading(
        text=storable(text),
        finish=finish,
        ids=ids,
        logprobs=logprobs,
        kept_logprobs=kept,
        prompt_tokens=_count(usage.prompt_tokens),
        completion_tokens=len(ids) if ids is not None else _count(usage.completion_tokens),
    )


def _decode(answer: Answer, key: Key) -> _Body:
    try:
        data = msgspec.json.decode(answer.body)
    except (msgspec.DecodeError, RecursionError) as error:
        said = error_text(answer.body, key)
        raise ServerFailure(f"the server's answer is no JSON ({error}): {said}", may_pass=True) from error
    if isinstance(data, dict) and data.get("error") and not data.get("choices"):
        # Some gateways wrap the failure of the server behind them into an answer with status 200.
        code = data["error"].get("code") if isinstance(data["error"], dict) else None
        if type(code) is int and code != 200 and 100 <= code <= 999:
            raise failure_of_status(answer._replace(status=code), key)
        raise ServerFailure(f"the server answered with an error: {error_text(answer.body, key)}", may_pass=False)
    try:
        return msgspec.convert(data, _Body)
    except (msgspec.ValidationError, RecursionError) as error:
        raise ServerFailure(
            f"the server's answer is no chat completion: {key.shown(str(error))}", may_pass=False
        ) from error


def _count(tokens: Any) -> int:
    """Return a reported number of tokens, or 0 (which means that it is unknown) for what cannot be one."""
    return tokens if type(tokens) is int and 0 <= tokens < _TOO_MANY else 0


def _finish(choice: _Choice, key: Key) -> Finish:
    reason = choice.finish_reason
    if reason in _STOPS:
        return "stop"
    if reason in _CUTS:
        return "length"
    if reason == "content_filter":
        raise ServerFailure("the server's content filter withheld the completion", may_pass=False)
    if reason in _GIVEN_UP:
        raise ServerFailure(f"the server gave the completion up (finish_reason {reason!r})", may_pass=True)
    said = repr(reason and key.shown(reason))
    raise ServerFailure(
        f"finish_reason {said:.60} says neither that the completion ended nor that it was cut", may_pass=False
    )


def _text(message: _Message, *, cut: bool) -> str:
    """Put a message's parts back together as the model wrote them: thoughts, text, tool calls."""
    thoughts = message.reasoning_content or message.reasoning
    content = message.content or message.refusal or ""
    calls = [_call_text(call.function) for call in message.tool_calls or ()]
    begin = ""
    if thoughts:
        whole = content or calls or not cut
        begin = f"<think>{thoughts}</think>" if whole else f"<think>{thoughts}"
    said = "\n".join([content, *calls]) if content else "\n".join(calls)
    return begin + said


def _stopped(
    text: str, finish: Finish, reason: str | int | None, *, sampling: Sampling, settings: OpenAISettings
) -> tuple[str, Finish]:
    """Make the stop text at which a completion ended the end of its text, where that can be known."""
    if settings.stop_texts == "here":
        ends = [text.index(stop) + len(stop) for stop in sampling.stop if stop in text]
        return (text[: min(ends)], "stop") if ends else (text, finish)
    if finish == "stop" and isinstance(reason, str) and reason in sampling.stop and not text.endswith(reason):
        return text + reason, finish
    return text, finish


def _call_text(function: _Function) -> str:
    arguments: Any = function.arguments if function.arguments is not None else {}
    if isinstance(arguments, str):
        try:
            parsed = json.loads(arguments or "{}", parse_constant=_no_constant)
        except (ValueError, RecursionError):
            parsed = None
        # What is no object stays the text that the model wrote: the tool's answer says what is wrong with it.
        arguments = parsed if isinstance(parsed, dict) else arguments
    try:
        body = json.dumps({"name": function.name, "arguments": arguments}, ensure_ascii=False)
    except RecursionError as error:  # what could just be read may be too deep to be written
        raise ServerFailure("the arguments of a tool call are nested too deeply", may_pass=False) from error
    return "<tool_call>" + body.replace("<", "\\u003c") + "</tool_call>"


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _tokens(
    choice: _Choice, *, sampling: Sampling, settings: OpenAISettings
) -> tuple[tuple[int, ...] | None, tuple[float, ...] | None, tuple[float, ...] | None]:
    """Return ids, log-probabilities before and after truncation; ``None`` for what the server does not give."""
    if not settings.token_ids:
        return None, None, None
    if choice.token_ids is None:
        raise ServerFailure(
            "the server returned no token ids (token_ids=True asks for them; vLLM's server gives them)", may_pass=False
        )
    ids = tuple(choice.token_ids)
    if settings.server_logprobs == "none":
        return ids, None, None
    given = choice.logprobs.content if choice.logprobs is not None else None
    if given is None or len(given) != len(ids):
        count = "no" if given is None else str(len(given))
        raise ServerFailure(f"the server returned {count} log-probabilities for {len(ids)} tokens", may_pass=False)
    values = tuple(item.logprob for item in given)
    untouched = sampling.top_p == 1 and sampling.top_k == 0
    if sampling.temperature == 0:
        return ids, values if settings.server_logprobs == "raw" else None, (0.0,) * len(ids)
    if settings.server_logprobs == "processed":
        return ids, values if untouched else None, values
    return ids, values, values if untouched else None
