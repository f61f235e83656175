"""How vLLM's engine is opened so that it can be given weights and says the log-probabilities that a trainer needs."""

from __future__ import annotations

import dataclasses
import difflib
import os
import weakref
from typing import Any

from spade_gym.models.base import ModelError
from spade_gym.models.completion_end import CompletionEnd

#: What this engine relies on; set before vLLM is imported, refused when set to something else.
_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": ("0", "the engine must live in this process to be given weights"),
    "VLLM_USE_V2_MODEL_RUNNER": ("0", "the second model runner takes other logits processors"),
}
#: The engines that live in this process (see ``close_engine``).
_OPEN: weakref.WeakSet[Any] = weakref.WeakSet()
_WORKER = "spade_gym.models.vllm_worker"
_OURS = frozenset({"model", "tokenizer", "max_model_len", "logprobs_mode", "max_logprobs", "logits_processors"})


def open_engine(model: str, *, tokenizer: str, max_logprobs: int, settings: dict[str, Any]) -> tuple[Any, Any]:
    """Open vLLM's ``LLMEngine`` and load the tokenizer.

    Args:
        model: A folder, or an id on the hub.
        tokenizer: The same, for the tokenizer.
        max_logprobs: Most candidates that a request may ask for with each token.
        settings: Arguments of ``EngineArgs``; a ``dtype`` of ``None`` is chosen here.

    Raises:
        ModelError: vLLM is missing, a setting is unknown, or the model cannot be loaded.
    """
    for variable, (value, reason) in _ENVIRONMENT.items():
        if os.environ.setdefault(variable, value) != value:
            raise ModelError(f"{variable}={os.environ[variable]} does not work here ({reason}): unset it")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    try:
        from transformers import AutoTokenizer
        from vllm import EngineArgs
        from vllm.platforms import current_platform
        from vllm.v1.engine.llm_engine import LLMEngine
    except ImportError as error:
        raise ModelError(
            f"vLLM is not installed or cannot be imported ({error}): pip install vllm, or for a CPU see docs/models.md"
        ) from error
    _check_names(settings, {item.name for item in dataclasses.fields(EngineArgs)})
    dtype = settings["dtype"] or ("float32" if current_platform.is_cpu() else "bfloat16")
    try:
        loaded = AutoTokenizer.from_pretrained(tokenizer, trust_remote_code=False)
        arguments = EngineArgs(
            **{"trust_remote_code": False, "disable_log_stats": True, **settings, "dtype": dtype},
            model=model,
            tokenizer=tokenizer,
            logprobs_mode="processed_logits",
            max_logprobs=max_logprobs,
            logits_processors=[f"{_WORKER}:NormaliseGreedy", f"{_WORKER}:NormaliseSampled"],
        )
        engine = LLMEngine.from_engine_args(arguments)
    except Exception as error:  # vLLM raises whatever its many parts raise
        raise ModelError(f"vLLM cannot open {model!r}: {type(error).__name__}: {error}") from error
    _OPEN.add(engine)
    return engine, loaded


def close_engine(engine: Any) -> None:
    """Free an engine; the others in this process go on.

    vLLM's own shutdown, which also runs when an engine is forgotten, ends the process groups that all engines share.
    It is left to the last one.
    """
    _OPEN.discard(engine)
    if not _OPEN:
        engine.engine_core.shutdown()
        return
    if (finalizer := getattr(engine.engine_core, "_finalizer", None)) is not None:
        finalizer.detach()
    engine.model_executor.shutdown()


def _check_names(settings: dict[str, Any], known: set[str]) -> None:
    for name in settings:
        if name in _OURS and name != "max_model_len":
            raise ModelError(f"{name} is set by spade_gym and cannot be given")
        if name not in known:
            near = difflib.get_close_matches(name, sorted(known), n=1)
            ask = f"; did you mean {near[0]!r}?" if near else ""
            raise ModelError(f"neither VllmModel nor vLLM's EngineArgs has a setting {name!r}{ask}")


def completion_end_of(config: Any, tokenizer: Any) -> CompletionEnd:
    """Return what ends a completion: the end tokens of the model's generation settings and of its tokenizer.

    Args:
        config: vLLM's ``ModelConfig``.
        tokenizer: Of transformers.
    """
    listed = config.try_get_generation_config().get("eos_token_id")
    ends = set(listed) if isinstance(listed, list | tuple) else {listed}
    return CompletionEnd(tokenizer, {end for end in ends | {tokenizer.eos_token_id} if end is not None})
