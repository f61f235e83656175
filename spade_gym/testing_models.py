"""Does a language model keep the promises of ``spade_gym.models.base``? See ``spade_gym.testing``."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from spade_gym.models.base import Completion, LanguageModel, Message, ModelError, ModelRequest, Sampling
from spade_gym.models.chat import start_chat

_QUESTIONS = ("Say hello.", "Count from one to ten.", "Name a colour that you like, and say why.", "What is 2 + 3?")
_SAMPLING = Sampling(max_tokens=12, temperature=0.8, top_p=0.95, top_k=20)
_GREEDY = Sampling(max_tokens=12, temperature=0.0, top_p=1.0, top_k=0)


def check_language_model(
    model: LanguageModel, *, samples: bool = True, seeded: bool = True, max_differing: int = 0
) -> None:
    """Check an engine; it is closed afterwards.

    Args:
        model: Open, with nothing in flight.
        samples: Whether it computes its answers; ``False`` for one that replays them (it must know the keys ``check/…``
            or take any), of which only the bookkeeping is checked.
        seeded: Whether a seed fixes an answer; ``False`` for servers that ignore it.
        max_differing: How many of four answers may be others alone than in a batch. Sums are rounded differently there
            (by about 1e-5 in fp32, 1e-2 in bf16), and a token changes when its number, or a tie, falls in between: 0 is
            right for fp32 with short answers, 1 or 2 for 16-bit weights.
    """
    assert model.name, "a model needs a name for reports"
    assert model.collect() == [], "collect must return [] when nothing is in flight"
    together = _check_bookkeeping(model)
    if samples:
        _check_alone(model, together, seeded=seeded, max_differing=max_differing)
        _check_greedy(model, repeats=max_differing == 0)
        _check_stop(model)
        _check_too_long(model)
    model.close()
    model.close()
    refusal = _refusal(model, _request(model, "check/closed", _QUESTIONS[0], _SAMPLING))
    assert refusal, "a closed model must refuse requests with ModelError"


def _check_bookkeeping(model: LanguageModel) -> list[Completion]:
    """Submit, refuse a duplicate, submit more while others are in flight: every key comes back once."""
    requests = [_request(model, f"check/{number}", text, _SAMPLING) for number, text in enumerate(_QUESTIONS)]
    for request in requests[:-1]:
        model.submit(request)
    refusal = _refusal(model, requests[0])
    assert requests[0].key in refusal, f"a key that is in flight must be refused by name, got {refusal!r}"
    found = model.collect()
    assert found, "collect must return at least one completion when requests are in flight"
    model.submit(requests[-1])
    found += _drain(model)
    keys = sorted(completion.key for completion in found)
    assert keys == [request.key for request in requests], f"every key must come back once, got {keys}"
    by_key = {completion.key: completion for completion in found}
    for request in requests:
        _check_completion(by_key[request.key], request.sampling)
    return [by_key[request.key] for request in requests]


def _check_completion(completion: Completion, sampling: Sampling) -> None:
    where = f"completion {completion.key!r}"
    assert completion.finish in ("stop", "length", "error"), f"{where}: finish is {completion.finish!r}"
    assert (completion.finish == "error") == bool(completion.error), f"{where}: an error needs a message, others none"
    assert completion.finish != "error", f"{where} failed: {completion.error}"
    assert completion.seconds >= 0, f"{where}: seconds are {completion.seconds!r}"
    if completion.ids is None:
        assert completion.logprobs is None, f"{where}: log-probabilities without ids belong to nothing"
        assert completion.kept_logprobs is None, f"{where}: log-probabilities without ids belong to nothing"
        return
    count = len(completion.ids)
    assert 1 <= count <= sampling.max_tokens, f"{where}: {count} tokens, asked for 1 to {sampling.max_tokens}"
    assert completion.completion_tokens == count, f"{where}: completion_tokens is {completion.completion_tokens}"
    assert completion.prompt_tokens > 0, f"{where}: prompt_tokens is {completion.prompt_tokens}"
    if completion.finish == "length":
        assert count == sampling.max_tokens, f"{where}: cut off after {count} of {sampling.max_tokens} tokens"
    for name, values in (("logprobs", completion.logprobs), ("kept_logprobs", completion.kept_logprobs)):
        if values is not None:
            assert len(values) == count, f"{where}: {len(values)} {name} for {count} ids"
            assert all(math.isfinite(value) and value <= 1e-4 for value in values), f"{where}: {name} are {values}"
    if completion.logprobs is not None and completion.kept_logprobs is not None:
        pairs = zip(completion.logprobs, completion.kept_logprobs, strict=True)
        assert all(kept >= logprob - 1e-2 for logprob, kept in pairs), (
            f"{where}: dropping candidates cannot make a kept one less likely: {completion.logprobs} became "
            f"{completion.kept_logprobs}"
        )


def _check_alone(model: LanguageModel, together: Sequence[Completion], *, seeded: bool, max_differing: int) -> None:
    """Ask again one at a time, in the reverse order: what comes back depends on the request alone."""
    differing: list[str] = []
    for number in reversed(range(len(_QUESTIONS))):
        alone = _ask(model, f"check/{number}", _QUESTIONS[number], _SAMPLING)
        if (alone.ids, alone.text) != (together[number].ids, together[number].text):
            differing.append(f"{together[number].text!r} became {alone.text!r}")
    assert not seeded or len(differing) <= max_differing, (
        f"the same requests gave other answers alone than in a batch ({len(differing)}, allowed {max_differing}): "
        + "; ".join(differing)
    )


def _check_greedy(model: LanguageModel, *, repeats: bool) -> None:
    first = _ask(model, "check/greedy", _QUESTIONS[1], _GREEDY, seed=1)
    second = _ask(model, "check/greedy", _QUESTIONS[1], _GREEDY, seed=2)
    assert not repeats or (first.text, first.ids) == (second.text, second.ids), (
        f"temperature 0 must not depend on the seed: {first.text!r} became {second.text!r}"
    )
    if first.kept_logprobs is not None:
        assert all(abs(value) < 1e-6 for value in first.kept_logprobs), (
            f"greedy draws from one candidate, whose log-probability is 0, got {first.kept_logprobs}"
        )
    short = _ask(model, "check/short", _QUESTIONS[1], dataclasses.replace(_GREEDY, max_tokens=2))
    assert short.completion_tokens <= 2, f"asked for 2 tokens, got {short.completion_tokens}"
    if first.completion_tokens > 2:
        assert short.finish == "length", f"cut off after 2 tokens, so finish must be 'length', got {short.finish!r}"


def _check_stop(model: LanguageModel) -> None:
    """Ask for a text with a stop text taken from its middle."""
    whole = _ask(model, "check/whole", _QUESTIONS[1], _GREEDY).text
    middle = len(whole) // 2
    stop = whole[middle : middle + 2]
    if not stop.strip() or "\ufffd" in stop:
        return
    end = whole.index(stop) + len(stop)
    found = _ask(model, "check/stop", _QUESTIONS[1], dataclasses.replace(_GREEDY, stop=(stop,)))
    assert found.finish == "stop", (
        f"{found.text!r} holds the stop text {stop!r}: finish must be 'stop', not {found.finish}"
    )
    assert found.text[:end] == whole[:end], f"{found.text!r} must begin like {whole[:end]!r}, up to the stop text"
    assert whole.startswith(found.text), f"after the stop text nothing but the rest of its token: {found.text!r}"


def _check_too_long(model: LanguageModel) -> None:
    request = _request(model, "check/long", _QUESTIONS[0], _SAMPLING)
    if model.max_context is None or request.prompt_ids is None:
        return
    ids = (request.prompt_ids * (model.max_context // len(request.prompt_ids) + 1))[: model.max_context]
    refusal = _refusal(model, dataclasses.replace(request, prompt_ids=ids))
    assert refusal, f"a prompt of {len(ids)} tokens must be refused: the context has {model.max_context}"


def _refusal(model: LanguageModel, request: ModelRequest) -> str:
    """Return why a model refuses a request; "" when it takes it."""
    try:
        model.submit(request)
    except ModelError as error:
        return str(error)
    return ""


def _request(model: LanguageModel, key: str, text: str, sampling: Sampling, seed: int = 7) -> ModelRequest:
    return start_chat(model, [Message("user", text)]).request(key, sampling, seed)


def _ask(model: LanguageModel, key: str, text: str, sampling: Sampling, seed: int = 7) -> Completion:
    model.submit(_request(model, key, text, sampling, seed))
    found = _drain(model)
    assert [completion.key for completion in found] == [key], f"asked {key!r} alone, got {found}"
    _check_completion(found[0], sampling)
    return found[0]


def _drain(model: LanguageModel) -> list[Completion]:
    found: list[Completion] = []
    while completions := model.collect():
        found += completions
    return found
