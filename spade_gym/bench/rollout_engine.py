"""How much of an engine's speed is left when it plays? Measured with SmolLM2 on the CPU.

A rollout is played while every call of the engine is timed and written down: its tokens over the engine's time are what
the engine itself reaches on these batches. Because a busy machine changes its speed within a minute, the ratio is taken
from the same run. Then the same calls are made again without the rollout; each request has its own seed, so the same
tokens are sampled.
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
        note: Tokens a second in rollouts, of the engine in them, and of the engine alone; or why nothing was measured.
    """

    value: float | None
    note: str


class CallLog:
    """A model that writes down how it is called.

    Args:
        model: Which does the work.

        clock: Gives seconds.

    Attributes:
        calls: Requests that were submitted, and ``None`` for each ``collect``.
        seconds: Spent in the calls.
    """

    def __init__(self, model: LanguageModel, clock: Callable[[], float]) -> None:
        self.name = model.name
        self.chat_format: ChatFormat | None = model.chat_format
        self.max_context: int | None = model.max_context
        self.calls: list[ModelRequest | None] = []
        self.seconds = 0.0
        self._model = model
        self._clock = clock

    def submit(self, request: ModelRequest) -> None:
        """Pass a request on."""
        self.calls.append(request)
        start = self._clock()
        self._model.submit(request)
        self.seconds += self._clock() - start

    def collect(self) -> list[Completion]:
        """Pass completions on."""
        self.calls.append(None)
        start = self._clock()
        completions = self._model.collect()
        self.seconds += self._clock() - start
        return completions

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
    playing, inside, alone, tokens = 0.0, 0.0, 0.0, 0
    for _ in range(repetitions):
        log = CallLog(model, clock)
        start = clock()
        plays = play_all(orders, log, settings=settings)
        playing += clock() - start
        inside += log.seconds
        start = clock()
        repeated = _repeat(model, log.calls)
        alone += clock() - start
        sampled = sum(play.completion_tokens for play in plays)
        if repeated != sampled:
            raise ModelError(f"{model.name} sampled {sampled} tokens, and {repeated} for the same requests")
        tokens += sampled
    rates = [f"{tokens / seconds:.1f}" for seconds in (playing, inside, alone)]
    note = f"{model.name}: {rates[0]} tokens/s playing, its calls {rates[1]}, made again alone {rates[2]}"
    return Ratio(inside / playing, f"{note}; {len(orders)} plays, {repetitions} times")


def _repeat(model: LanguageModel, calls: list[ModelRequest | None]) -> int:
    """Make the calls again; return the number of tokens."""
    tokens = 0
    for call in calls:
        if call is None:
            tokens += sum(completion.completion_tokens for completion in model.collect())
        else:
            model.submit(call)
    return tokens
