"""How a model of transformers comes from a folder or the hub into memory."""

from __future__ import annotations

from typing import Any

from spade_gym.models.base import ModelError

_DTYPES = ("float32", "bfloat16", "float16")
REMEDY = "pip install 'spade-gym[llm]'"


def load(path: str, *, device: str | None = None, dtype: str | None = None) -> tuple[Any, Any]:
    """Load a causal language model and its tokenizer, from safetensors only and without code of the model's folder.

    Args:
        path: A folder, or an id on the hub.
        device: ``None`` for ``cuda`` where there is one.
        dtype: ``None`` for ``float32`` on a CPU, else ``bfloat16``.

    Raises:
        ModelError: A package, the device or the model is missing.
    """
    if not path:
        raise ModelError("transformers: needs a folder or a model's id, for example transformers:Qwen/Qwen3-0.6B")
    chosen, kind = place(device, dtype)
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        model = AutoModelForCausalLM.from_pretrained(
            path, dtype=kind, attn_implementation="sdpa", use_safetensors=True, trust_remote_code=False
        )
        tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=False)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise ModelError(f"transformers cannot load {path!r}: {type(error).__name__}: {error}") from error
    return model.to(chosen).eval(), tokenizer


def place(device: str | None, dtype: str | None) -> tuple[Any, Any]:
    """Return the torch device and dtype that are meant; see ``load``.

    Raises:
        ModelError: torch or transformers is missing, the device is not there, or the dtype is unknown.
    """
    try:
        import torch
        import transformers  # noqa: F401  (only whether it is there)
    except ImportError as error:
        raise ModelError(f"models in this process need torch and transformers ({error}): {REMEDY}") from error
    try:
        chosen = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    except RuntimeError as error:
        raise ModelError(f"device must be like 'cpu', 'cuda' or 'cuda:1', got {device!r}") from error
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise ModelError(f"device {device!r} is not there: torch sees no CUDA device; use device='cpu'")
    dtype = dtype or ("float32" if chosen.type == "cpu" else "bfloat16")
    if dtype not in _DTYPES:
        raise ModelError(f"dtype must be one of {', '.join(_DTYPES)}, got {dtype!r}")
    return chosen, getattr(torch, dtype)
