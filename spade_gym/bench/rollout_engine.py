"""How much of an engine's speed is left when it plays? Measured with SmolLM2 on the CPU.

A rollout is played while every call of the engine is written down; then the same calls are made again without the
rollout. The requests, and so the batches, are the same, and each has its own seed, so the same tokens are sampled.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from spade_gym.models.base import Completion, LanguageModel, ModelError, ModelRequest, Sampling
from spade_gym.models.chat import ChatFormat
from spade_gym.models.open_model import open_model
from spade_gym.rollout.play import PlayOrder
from spade_gym.rollout.player_settings import PlayerSettings
from spade_gym.rollout.rollout import play_all


class Ratio(NamedTuple):
    """Tokens a second in a rollout over those of the engine alone.

    Attributes:
        value: The ratio; ``None`` where the engine is not installed.
        note: What was measured, or why nothing was.
    """

    value: float | None
    note: str


class CallLog:
    """A model that writes down how it is called.

    Args:
        model: Which does the work.

    Attributes:
        calls: Requests that were submitted, and ``None`` for each ``collect``.
    """

    def __init__(self, model: LanguageModel) -> None:
        self.name = model.name
        self.chat_format: ChatFormat | None = model.chat_format
        self.max_context: int | None = model.max_context
        self.calls: list[ModelRequest | None] = []
        self._model = model

    def submit(self, request: ModelRequest) -> None:
        """Pass a request on."""
        self.calls.append(request)
        self._model.submit(request)

    def collect(self) -> list[Completion]:
        """Pass completions on."""
        self.calls.append(None)
        return self._model.collect()

    def close(self) -> None:
        """Leave the model open: it is used again."""


def tokens_ratio(orders: list[PlayOrder], *, repetitions: int = 2) -> Ratio:
    """Compare a rollout with the engine alone.

    Args:
        orders: What to play.
        repetitions: Comparisons, in turn; their times are added up.
    """
    try:
        model = open_model("smollm2")
    except ModelError as error:
        return Ratio(None, f"not measured: {error}")
    try:
        return compare(model, orders, repetitions=repetitions)
    finally:
        model.close()


def compare(
    model: LanguageModel,
    orders: list[PlayOrder],
    *,
    repetitions: int,
    clock: Callable[[], float] = time.perf_counter,
) -> Ratio:
    """Play orders, then make the same calls of the model alone, after a rollout that does not count.

    Raises:
        ModelError: The model did not sample the same number of tokens again, so that the times cannot be compared.
    """
    settings = PlayerSettings(sampling=Sampling(max_tokens=24), max_turns=2, example=True)
    play_all(orders, model, settings=settings)  # an engine that remembers prompts knows them both times
    playing, alone, tokens = 0.0, 0.0, 0
    for _ in range(repetitions):
        log = CallLog(model)
        start = clock()
        plays = play_all(orders, log, settings=settings)
        playing += clock() - start
        start = clock()
        repeated = _repeat(model, log.calls)
        alone += clock() - start
        sampled = sum(play.completion_tokens for play in plays)
        if repeated != sampled:
            raise ModelError(f"{model.name} sampled {sampled} tokens, and {repeated} for the same requests")
        tokens += sampled
    note = f"{model.name}: {tokens / playing:.1f} tokens/s in rollouts, {tokens / alone:.1f} alone, {len(orders)} plays"
    return Ratio(alone / playing, note)


def _repeat(model: LanguageModel, calls: list[ModelRequest | None]) -> int:
    """Make the calls again; return the number of tokens."""
    tokens = 0
    for call in calls:
        if call is None:
            tokens += sum(completion.completion_tokens for completion in model.collect())
        else:
            model.submit(call)
    return tokens
