"""Tiny policies over sixteen words, and trajectories that they sampled or that were written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from spade_gym.models.base import ModelRequest, Sampling
from spade_gym.models.sample import Sample
from spade_gym.models.transformers_model import TransformersModel
from spade_gym.selfplay.trainer import PolicyRole, Trajectory, UpdateBatch

VOCABULARY = 16


def tokenizer() -> Any:
    words = {f"w{number}": number for number in range(VOCABULARY)}
    made = Tokenizer(models.WordLevel(words, unk_token="w0"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token="w1", pad_token="w0")


def tiny(kind: Any = LlamaForCausalLM, config: Any = LlamaConfig, *, seed: int = 0, **changes: Any) -> Any:
    """A model of two layers with wide random weights."""
    settings: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 128,
        "initializer_range": 0.3,
        "eos_token_id": 1,
        "bos_token_id": None,
        "tie_word_embeddings": False,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return kind(config(**{**settings, **changes})).eval()


def engine(model: Any, **settings: Any) -> TransformersModel:
    return TransformersModel(model, tokenizer(), end_ids=(), **settings)


def sample(prompt: Sequence[int], reply: Sequence[int], logprobs: Sequence[float], version: int = 0) -> Sample:
    """One turn."""
    numbers = (*(0.0 for _ in prompt), *logprobs)
    mask = (*(0 for _ in prompt), *(1 for _ in reply))
    return Sample((*prompt, *reply), mask, numbers, numbers, (version,))


def trajectory(
    key: str,
    samples: Sample | Sequence[Sample],
    advantage: float,
    *,
    role: PolicyRole = "agent",
    group: str = "g",
    reward: float = 0.0,
    temperature: float = 1.0,
) -> Trajectory:
    held = (samples,) if isinstance(samples, Sample) else tuple(samples)
    return Trajectory(key, role, group, reward, advantage, held, 0, temperature)


def batch(*trajectories: Trajectory, rollout: int = 0) -> UpdateBatch:
    return UpdateBatch(rollout, trajectories)


def sampled(
    model: TransformersModel, prompts: Sequence[Sequence[int]], *, seed: int, tokens: int = 1, temperature: float = 1.0
) -> list[Sample]:
    """Let a model answer prompts."""
    for number, prompt in enumerate(prompts):
        sampling = Sampling(tokens, temperature, top_p=1.0, top_k=0)
        model.submit(ModelRequest(str(number), (), sampling, 1000 * seed + number, tuple(prompt)))
    found = {}
    while completions := model.collect():
        found.update((int(completion.key), completion) for completion in completions)
    return [
        sample(prompt, found[number].ids or (), found[number].logprobs or (), found[number].policy_version)
        for number, prompt in enumerate(prompts)
    ]


def mixed_batch(model: Any, *, seed: int = 0, temperature: float = 0.7) -> UpdateBatch:
    """Twelve trajectories of several lengths, both roles, one with two samples, with what the model sampled."""
    lengths = [(2, 5), (9, 3), (4, 4), (6, 9), (3, 1), (11, 6), (2, 2), (5, 7), (8, 8), (3, 3), (7, 5), (4, 2)]
    player = engine(model)
    held = []
    for number, (prompt, reply) in enumerate(lengths):
        ids = [(3 * number + 5 * place + seed) % VOCABULARY for place in range(prompt)]
        held += sampled(player, [ids], seed=seed + number, tokens=reply, temperature=temperature)
    advantages = [0.5, -1.0, 1.5, 0.25, -0.75, 1.0, -0.5, 2.0, -2.0, 0.125, -1.5, 0.875]
    found = [trajectory(f"a{n}", held[n], advantages[n], group=f"g{n % 3}", temperature=temperature) for n in range(9)]
    found.append(trajectory("d0", held[9:11], advantages[9], role="designer", group="Logic", temperature=temperature))
    found.append(trajectory("d1", held[11], advantages[11], role="designer", group="Logic", temperature=temperature))
    return batch(*found)
