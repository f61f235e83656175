"""What both sides of a comparison compute: a model of random weights, a group of completions of one prompt, rewards."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

Precision = Literal["float32", "bfloat16"]
Weights = Literal["float64", "float32", "bfloat16"]
Device = Literal["cpu", "cuda"]
Shape = Literal["smollm2", "tiny", "qwen3-0.6b", "qwen3-1.7b", "qwen3-tiny"]

#: Configurations of transformers: SmolLM2-135M, a Llama of 2.9 M parameters, and what a GPU is measured with.
SHAPES: dict[Shape, dict[str, Any]] = {
    "smollm2": {
        "model_type": "llama", "vocab_size": 49_152, "hidden_size": 576, "intermediate_size": 1536,
        "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
    },
    "tiny": {
        "model_type": "llama", "vocab_size": 2048, "hidden_size": 192, "intermediate_size": 512, "num_hidden_layers": 6,
        "num_attention_heads": 6, "num_key_value_heads": 3,
    },
    "qwen3-0.6b": {
        "model_type": "qwen3", "vocab_size": 151_936, "hidden_size": 1024, "intermediate_size": 3072,
        "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
    },
    "qwen3-1.7b": {
        "model_type": "qwen3", "vocab_size": 151_936, "hidden_size": 2048, "intermediate_size": 6144,
        "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
    },
    "qwen3-tiny": {
        "model_type": "qwen3", "vocab_size": 512, "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
    },
}  # fmt: skip

#: Ids that end a reply or pad; completions hold none, and none is sampled as an end.
END_ID, PAD_ID = 1, 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One GRPO update.

    Attributes:
        shape: Of the model.
        prompt_tokens: Length of the prompt; 180 is the median of SmolLM2's plays of the recipe ``recorded-demo``.
        completion_tokens: Length of every completion.
        group: Completions of the prompt, all in one micro-batch.
        sampled_tokens: Length of completions where generation is measured.
        precision: Of the products, by autocast.
        weights: Of the weights. In half precision our side keeps single-precision masters, TRL does not.
        device: Where.
        threads: Of PyTorch.
        checkpointing: Whether both sides compute activations twice instead of keeping them.
        shared: Whether our side may compute the prompt once for the group.
    """

    shape: Shape = "smollm2"
    prompt_tokens: int = 180
    completion_tokens: int = 512
    group: int = 8
    sampled_tokens: int = 64
    precision: Precision = "float32"
    weights: Weights = "float32"
    device: Device = "cpu"
    threads: int = 1
    checkpointing: bool = False
    shared: bool = True

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self)


class Group(NamedTuple):
    """A prompt with its completions.

    Attributes:
        prompt: Token ids.
        completions: Token ids of each.
        rewards: 0 and 1 in turn.
        advantages: The rewards' z-scores as TRL computes them: (r - mean) / (sample standard deviation + 1e-4).
    """

    prompt: list[int]
    completions: list[list[int]]
    rewards: list[float]
    advantages: list[float]


def group_of(workload: Workload) -> Group:
    """Return the same group in every process."""
    rng = np.random.default_rng(0)
    vocabulary = SHAPES[workload.shape]["vocab_size"]
    lowest = max(END_ID, PAD_ID) + 1
    ids = [
        [int(token) for token in rng.integers(lowest, vocabulary, size=size)]
        for size in (workload.prompt_tokens, *[workload.completion_tokens] * workload.group)
    ]
    rewards = np.arange(workload.group) % 2.0
    advantages = (rewards - rewards.mean()) / (rewards.std(ddof=1) + 1e-4)
    return Group(ids[0], ids[1:], rewards.tolist(), advantages.tolist())


def model_of(shape: Shape, *, device: str = "cpu", weights: Weights = "float32") -> Any:
    """Return a model of that shape with the same random weights in every process.

    Args:
        shape: Of the model.
        device: On which it is made.
        weights: Their precision.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(
        **SHAPES[shape], max_position_embeddings=8192, tie_word_embeddings=True, bos_token_id=END_ID,
        eos_token_id=END_ID, pad_token_id=PAD_ID,
    )  # fmt: skip
    with torch.random.fork_rng(), torch.device(device):
        torch.manual_seed(0)
        return AutoModelForCausalLM.from_config(config, attn_implementation="sdpa", dtype=getattr(torch, weights))


def tokenizer_of(shape: Shape) -> Any:
    """Return a tokenizer with one word an id: neither side spends time on text."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {f"w{number}": number for number in range(SHAPES[shape]["vocab_size"])}
    made = Tokenizer(models.WordLevel(words, unk_token=f"w{PAD_ID}"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token=f"w{END_ID}", pad_token=f"w{PAD_ID}")
