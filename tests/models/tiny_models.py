"""Tiny models of transformers with random weights, and plain requests to them."""

from __future__ import annotations

from typing import Any

import torch
from chat_tokenizers import tokenizer_of
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from spade_gym.models.base import Completion, LanguageModel, ModelRequest, Sampling

MAX_CONTEXT = 256


def tiny_llama(*, family: str = "chatml", seed: int = 0, **changes: Any) -> LlamaForCausalLM:
    """Make a Llama of two layers for the vocabulary of a family; its weights are wide, so that texts differ."""
    tokenizer = tokenizer_of(family)
    settings = {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": MAX_CONTEXT,
        "tie_word_embeddings": False,
        "eos_token_id": tokenizer.eos_token_id,
        "bos_token_id": None,
        "initializer_range": 0.3,
    }
    return made(LlamaForCausalLM, LlamaConfig(**{**settings, **changes}), seed=seed)


def made(kind: Any, config: Any, *, seed: int = 0) -> PreTrainedModel:
    """Make a model of a kind with random weights; the global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return kind(config).eval()


def request(key: str, ids: list[int], *, seed: int = 0, **sampling: Any) -> ModelRequest:
    """A request with ids of one's own choice."""
    return ModelRequest(key, (), Sampling(**{"max_tokens": 8, "temperature": 1.0, **sampling}), seed, tuple(ids))


def answers(model: LanguageModel, requests: list[ModelRequest]) -> dict[str, Completion]:
    """Submit all and collect all."""
    for item in requests:
        model.submit(item)
    found: dict[str, Completion] = {}
    while completions := model.collect():
        found.update((completion.key, completion) for completion in completions)
    return found
