"""SkyRL's inference engines as a language model of this package.

SkyRL asks for plays inside its event loop; the plays run in a thread beside it, and every request goes back into the
loop as one call of ``InferenceEngineInterface.generate`` with token ids.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from collections.abc import Mapping
from typing import Any

from spade_gym.models.base import Completion, ModelError, ModelRequest
from spade_gym.models.chat import ChatFormat


class SkyrlEngine:
    """A :class:`spade_gym.models.base.LanguageModel`, for the plays of one batch.

    Args:
        client: SkyRL's, with ``generate`` and ``finish_session``.
        loop: In which it lives; the methods here are called from another thread.
        chat_format: Of the policy's tokenizer.
        sampling_params: As SkyRL hands them to its backend; requests say their own temperature, budget and seed.
        model_name: The policy's name in the engines; ``None`` for the client's own.
        max_context: Most tokens of a prompt and its reply; ``None`` where unknown.
    """

    name = "skyrl"

    def __init__(
        self,
        client: Any,
        loop: asyncio.AbstractEventLoop,
        chat_format: ChatFormat,
        *,
        sampling_params: Mapping[str, Any],
        model_name: str | None = None,
        max_context: int | None = None,
    ) -> None:
        self.chat_format: ChatFormat | None = chat_format
        self.max_context = max_context
        self._client, self._loop, self._model_name = client, loop, model_name
        self._told = dict(sampling_params)
        version = getattr(client, "weight_version", None)
        # as SkyRL's own generator salts the cache: what other weights computed is not taken
        self._salt = None if version is None else f"{model_name}@{version}" if model_name else str(version)
        self._pending: dict[concurrent.futures.Future[Any], tuple[ModelRequest, float]] = {}
        self._closed = False

    def submit(self, request: ModelRequest) -> None:
        """Send a request.

        Raises:
            ModelError: It has no token ids, its key is in flight, or the batch is over.
        """
        if self._closed:
            raise ModelError("SkyRL's batch is over: nothing is asked any more")
        if request.prompt_ids is None:
            raise ModelError(f"the request {request.key!r} has no prompt_ids; make it with start_chat")
        if any(request.key == other.key for other, _ in self._pending.values()):
            raise ModelError(f"the request {request.key!r} is in flight already; keys must be unique")
        batch = {
            "prompts": None,
            "prompt_token_ids": [list(request.prompt_ids)],
            "sampling_params": self._sampling(request),
            "session_ids": [session_of(request.key)],
            "mm_features": None,
            "cache_salt": self._salt,
        }
        call = self._client.generate(batch, model=self._model_name)
        self._pending[asyncio.run_coroutine_threadsafe(call, self._loop)] = request, time.monotonic()

    def collect(self) -> list[Completion]:
        """Wait until at least one request is answered; a call that failed is an answer, too."""
        if not self._pending:
            return []
        done, _ = concurrent.futures.wait(self._pending, return_when=concurrent.futures.FIRST_COMPLETED)
        found = []
        for future in sorted(done, key=lambda one: self._pending[one][1]):
            request, begun = self._pending.pop(future)
            found.append(_completion(request, future, time.monotonic() - begun))
        return found

    def finish(self, session: str) -> None:
        """Tell the engines that a play is over, so that its place is free."""
        finish = getattr(self._client, "finish_session", None)
        if finish is not None:
            asyncio.run_coroutine_threadsafe(finish(session), self._loop)

    def close(self) -> None:
        """Give up what is in flight."""
        self._closed = True
        for future in self._pending:
            future.cancel()
        self._pending.clear()

    def _sampling(self, request: ModelRequest) -> dict[str, Any]:
        sampling = request.sampling
        return {
            **self._told,
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k or -1,
            "stop": list(sampling.stop) or None,
            "seed": request.seed,
            "logprobs": self._told.get("logprobs") or 1,
        }


def session_of(key: str) -> str:
    """The play of a request: what stands before the number of the turn."""
    return key.rpartition("/")[0]


def _completion(request: ModelRequest, future: concurrent.futures.Future[Any], seconds: float) -> Completion:
    try:
        output = future.result()
        ids, text = tuple(output["response_ids"][0]), output["responses"][0]
        reason, logprobs = output["stop_reasons"][0], output.get("response_logprobs")
    except concurrent.futures.CancelledError:
        return Completion(request.key, "", "error", error="SkyRL cancelled the request", seconds=seconds)
    except Exception as error:  # whatever SkyRL's client raises about one request ends that play alone
        message = f"SkyRL's engine failed: {type(error).__name__}: {error}"
        return Completion(request.key, "", "error", error=message, seconds=seconds)
    if reason not in ("stop", "length"):
        return Completion(request.key, "", "error", error=f"SkyRL's engine stopped for {reason!r}", seconds=seconds)
    if not logprobs or len(logprobs[0]) != len(ids):
        message = "SkyRL's engine gave no log-probability for each token; generator.sampling_params.logprobs must be 1"
        return Completion(request.key, "", "error", error=message, seconds=seconds)
    numbers = tuple(float(number) for number in logprobs[0])
    return Completion(
        request.key,
        text,
        "stop" if reason == "stop" else "length",
        ids=ids,
        logprobs=numbers,
        kept_logprobs=numbers,
        prompt_tokens=len(request.prompt_ids or ()),
        completion_tokens=len(ids),
        seconds=seconds,
    )
