"""A bandit that is played as everything is played: a program in its jail, a chat, a tiny Llama that answers one word.

Four programs show a colour each; one of eight keys opens each of them. The model is made from scratch (about 15,000
weights) and is opened from a folder, as any other model of transformers is.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from spade_gym.models.base import LanguageModel
from spade_gym.models.transformers_model import TransformersModel
from spade_gym.selfplay.recipe import Recipe
from spade_gym.selfplay.recipe_file import read_recipe

COLOURS = ("red", "green", "blue", "gold")
KEYS = ("one", "two", "three", "four", "five", "six", "seven", "eight")
#: Programs, plays of each a rollout, and rollouts.
PLAYS, ROLLOUTS = 32, 24

_WORDS = ("unknown", "<user>", "<agent>", "<end>", *COLOURS, *KEYS)
_TEMPLATE = (
    "{% for message in messages %}{{ '<user>' if message.role != 'assistant' else '<agent>' }} "
    "{{ message.content }} <end> {% endfor %}{% if add_generation_prompt %}<agent> {% endif %}"
)
_PROGRAM = """The {colour} door.

```python
class {name}DoorEnv:
    def __init__(self, max_turns=1, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        return "{colour}", {{}}

    def step(self, action):
        right = action.strip() == "{key}"
        return ("gold" if right else "unknown"), float(right), True, False, {{}}
```
"""


def make_model(folder: Path, *, seed: int = 0) -> Path:
    """Write a model and its tokenizer into a folder."""
    import torch
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate(_WORDS)}, unk_token="unknown"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in _WORDS[1:4]])
    tokenizer: Any = PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<end>")
    tokenizer.chat_template = _TEMPLATE
    tokenizer.save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=len(_WORDS), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, initializer_range=0.05, tie_word_embeddings=False,
        bos_token_id=None, eos_token_id=3, pad_token_id=0,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def write_programs(folder: Path) -> Path:
    """Write the four programs as recorded replies."""
    folder.mkdir()
    rows = []
    for number, colour in enumerate(COLOURS):
        key = KEYS[(3 * number + 2) % len(KEYS)]
        (folder / f"{colour}.md").write_text(_PROGRAM.format(colour=colour, name=colour.title(), key=key))
        rows.append({"file": f"{colour}.md", "setting": "single_turn", "skill": "Pattern Recognition"})
    (folder / "index.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def write_prompts(folder: Path) -> Path:
    """Write gameplay prompts that are the bare observation."""
    folder.mkdir()
    for setting in ("single_turn", "multi_turn", "tool_use"):
        (folder / f"{setting}.md").write_text("{observation}\n")
    return folder


def write_recipe(folder: Path, *, seed: int = 0) -> Path:
    """Write model, programs, prompts and a recipe into a folder that exists; return the recipe's file."""
    model, programs = make_model(folder / "model", seed=seed), write_programs(folder / "programs")
    prompts = write_prompts(folder / "prompts")
    path = folder / "word-game.toml"
    # One request at a time, nothing remembered of others: what is computed does not depend on when a run was killed.
    path.write_text(f"""
title = "Doors and keys"

[cycle]
setting = "single_turn"
seed = {seed}
rollouts = {ROLLOUTS}
regenerate_every = {ROLLOUTS}
environments = {len(COLOURS)}
plays = {PLAYS}
hint_plays = 0
skills = ["Pattern Recognition"]
skills_per_regeneration = 1

[models]
agent = "transformers:{model}"
agent_options = {{ device = "cpu", max_batch = 1, reuse_tokens = 0 }}

[designer]
name = "recorded:{programs}"
train = false
corpus = "none"
jobs = 1

[hints]
source = "manifest"

[agent]
prompts = "{prompts}"
max_turns = 1
turn_tokens = 1
total_tokens = 1
temperature = 1.0
top_p = 1.0
top_k = 0
stop = {json.dumps(list(KEYS))}

[trainer]
name = "grpo"
options = {{ learning_rate = 0.01, entropy = 0.02, aggregation = "token", weight_decay = 0.0 }}
""")
    return path


def recipe_of(folder: Path, *overrides: str, seed: int = 0) -> Recipe:
    """Read the recipe of a folder, which is written first."""
    return read_recipe(str(write_recipe(folder, seed=seed)), list(overrides))


def agent_of(folder: Path) -> LanguageModel:
    """Open the model of a folder, to be played with in batches: quicker, but a killed run may round differently."""
    return TransformersModel.open(str(folder / "model"), device="cpu", max_batch=64)
