"""How are several conversations sent to a model, and all its answers awaited?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spade_gym.models.base import Completion, LanguageModel, Message, ModelError, ModelRequest, Sampling
from spade_gym.models.chat import start_chat


@dataclass(frozen=True, slots=True)
class Question:
    """A conversation that waits for the model's next message.

    Attributes:
        key: Names it; unique among those that are asked together.
        messages: What was said so far.
        seed: Seeds the answer.
    """

    key: str
    messages: tuple[Message, ...]
    seed: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back.

    Attributes:
        text: The sampled text, think block included.
        error: Why it cannot be used: the request was refused, the engine failed, or the text was cut off or is empty;
            "" otherwise.
        outage: The engine did not take the request, or failed: that says nothing about the question, which may be
            asked again.
        prompt_ids: The prompt's token ids, where known.
        completion: As the engine gave it; ``None`` where the request was refused.
    """

    text: str
    error: str
    prompt_ids: tuple[int, ...] | None = None
    completion: Completion | None = None
    outage: bool = False


def ask_all(
    model: LanguageModel, questions: Sequence[Question], sampling: Sampling, *, thinking: bool | None = None
) -> list[Answer]:
    """Submit every question at once and return the answers in order; a failure is an answer with an ``error``.

    Nothing else may be in flight in the model.

    Args:
        model: The engine.
        questions: With different keys.
        sampling: How to draw; its length is shortened where the model's context ends earlier.
        thinking: Whether the model may think first; ``None`` leaves it to its template.

    Raises:
        ValueError: Two questions have the same key.
        ModelError: The engine lost a request, or returned one that nobody made.
    """
    keys = [question.key for question in questions]
    if len(set(keys)) != len(keys):
        raise ValueError(
            f"questions need different keys, got {sorted(key for key in keys if keys.count(key) > 1)[0]!r}"
        )
    requests: dict[str, ModelRequest] = {}
    answers: dict[str, Answer] = {}
    for question in questions:
        try:
            request = _request(model, question, sampling, thinking)
        except ModelError as error:  # it does not fit into the model's context or template, and never will
            answers[question.key] = Answer("", f"the model cannot be asked this: {error}")
            continue
        try:
            model.submit(request)
        except ModelError as error:
            answers[question.key] = Answer("", f"the model did not take the request: {error}", outage=True)
        else:
            requests[question.key] = request
    while len(answers) < len(questions):
        for completion in _collected(model, len(questions) - len(answers)):
            if completion.key not in requests:
                raise ModelError(
                    f"{model.name} returned a completion for {completion.key!r}, which was not asked for here; let "
                    "nothing else use the model at the same time"
                )
            answers[completion.key] = _answer(completion, requests.pop(completion.key))
    return [answers[key] for key in keys]


def _request(model: LanguageModel, question: Question, sampling: Sampling, thinking: bool | None) -> ModelRequest:
    chat = start_chat(model, question.messages, thinking=thinking)
    if model.chat_format is not None and model.max_context is not None:
        left = model.max_context - chat.num_tokens
        if left < 1:
            raise ModelError(
                f"the prompt has {chat.num_tokens} tokens and the context of {model.name} {model.max_context}; choose "
                "shorter documents (max_words), fewer examples, or a model with a longer context"
            )
        sampling = replace(sampling, max_tokens=min(sampling.max_tokens, left))
    return chat.request(question.key, sampling, question.seed)


def _collected(model: LanguageModel, num_missing: int) -> list[Completion]:
    completions = model.collect()
    if not completions:
        raise ModelError(f"{model.name} has nothing in flight, but {num_missing} requests are unanswered")
    return completions


def _answer(completion: Completion, request: ModelRequest) -> Answer:
    if completion.finish == "error":
        error = f"the model failed: {completion.error or 'it gave no reason'}"
    elif completion.finish == "length":
        error = f"the text was cut off after {completion.completion_tokens} tokens"
    elif not completion.text.strip():
        error = "the model wrote nothing"
    else:
        error = ""
    return Answer(completion.text, error, request.prompt_ids, completion, outage=completion.finish == "error")
