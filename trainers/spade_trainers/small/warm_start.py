"""Train the small model from nothing on scripted lessons: ``python -m spade_trainers.small.warm_start FOLDER``.

Writes a model of transformers' ordinary form (configuration, weights in half precision as safetensors, tokenizer) with
a ``warm_start.json`` that says what it was made of. The shipped weights are the result of this command with its defaults.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spade_gym.designer.prompting import Prompts
from spade_gym.prompt_folder import prompt_folder
from spade_trainers.small.families import THINGS
from spade_trainers.small.lessons import (
    PLAYED,
    SKILL_FAMILIES,
    Lesson,
    design_lesson,
    draw_program,
    hint_lesson,
    length_of,
    play_lessons,
)
from spade_trainers.small.tokenizer import END, PAD, make_tokenizer

MAX_CONTEXT = 1536
VOCABULARY = 768
#: Programs whose episodes are lessons, episodes of each, and lessons of the other kinds.
NUM_PLAYED, NUM_EPISODES, NUM_DESIGNS, NUM_HINTS = 900, 24, 5000, 1200
HINTED = 0.3
TOKENS, BATCH_TOKENS, LEARNING_RATE = 5_000_000, 6144, 2e-3


def make_lessons(rng: np.random.Generator) -> list[Lesson]:
    """Write all lessons."""
    prompts = Prompts(prompt_folder("small", "designer"))
    lessons = [design_lesson(rng, prompts) for _ in range(NUM_DESIGNS)]
    lessons += [hint_lesson(rng, prompts) for _ in range(NUM_HINTS)]
    skills = list(SKILL_FAMILIES)
    for number in range(NUM_PLAYED):
        made = draw_program(rng, skills[number % len(skills)], str(rng.choice(THINGS)), length_of(rng, PLAYED))
        seeds = rng.integers(1 << 30, size=NUM_EPISODES).tolist()
        lessons += play_lessons(made, seeds, hint=bool(rng.random() < HINTED))
    return lessons


def make_model(vocabulary: int, seed: int) -> Any:
    """Make a Llama of about 1.4 million parameters with random weights."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=128,
        intermediate_size=352,
        num_hidden_layers=6,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=MAX_CONTEXT,
        tie_word_embeddings=True,
        initializer_range=0.02,
        bos_token_id=None,
        eos_token_id=END,
        pad_token_id=PAD,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(config)


def encode(tokenizer: Any, lesson: Lesson) -> tuple[list[int], list[int]]:
    """Return the ids of a lesson, and for each whether it is learnt (what the assistant says, with its end)."""
    ids: list[int] = []
    learnt: list[int] = []
    for message in lesson.messages:
        said = tokenizer.encode(message.content, add_special_tokens=False)
        own = message.role == "assistant"
        ids += [tokenizer.convert_tokens_to_ids(f"<|{message.role}|>"), *said, END]
        learnt += [0, *[int(own)] * (len(said) + 1)]
    return ids, learnt


def batches(
    encoded: Sequence[tuple[list[int], list[int]]], rng: np.random.Generator
) -> Iterator[list[tuple[list[int], list[int]]]]:
    """Deal lessons of similar length into batches of about ``BATCH_TOKENS`` tokens, for ever."""
    while True:
        order = rng.permutation(len(encoded))
        dealt: list[list[tuple[list[int], list[int]]]] = []
        for begin in range(0, len(order), 2048):
            part = sorted((encoded[n] for n in order[begin : begin + 2048]), key=lambda item: len(item[0]))
            batch: list[tuple[list[int], list[int]]] = []
            for item in part:
                if batch and (len(batch) + 1) * len(item[0]) > BATCH_TOKENS:
                    dealt.append(batch)
                    batch = []
                batch.append(item)
            dealt.append(batch)
        yield from (dealt[n] for n in rng.permutation(len(dealt)))


def train(model: Any, encoded: Sequence[tuple[list[int], list[int]]], *, tokens: int, seed: int) -> Iterator[str]:
    """Minimise the cross-entropy of what is learnt, and say how it goes."""
    import torch

    rng = np.random.default_rng(seed)
    optimiser = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.95), weight_decay=0.01)
    model.train()
    done, number, begun = 0, 0, time.process_time()
    for batch in batches(encoded, rng):
        longest = max(len(ids) for ids, _ in batch)
        ids = torch.full((len(batch), longest), PAD)
        labels = torch.full((len(batch), longest), -100)
        for row, (tokens_of, learnt) in enumerate(batch):
            ids[row, : len(tokens_of)] = torch.tensor(tokens_of)
            labels[row, : len(tokens_of)] = torch.where(
                torch.tensor(learnt, dtype=torch.bool), torch.tensor(tokens_of), -100
            )
        share = done / tokens
        rate = LEARNING_RATE * min(1.0, (number + 1) / 50) * (0.05 + 0.95 * (1 + math.cos(math.pi * share)) / 2)
        for group in optimiser.param_groups:
            group["lr"] = rate
        loss = model(input_ids=ids, labels=labels).loss
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        done, number = done + ids.numel(), number + 1
        if number % 50 == 0 or done >= tokens:
            yield f"{done:>9,} tokens · loss {loss.item():.3f} · {time.process_time() - begun:.0f} CPU-seconds"
        if done >= tokens:
            break
    model.eval()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the model is written")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tokens", type=int, default=TOKENS, help="tokens to learn from (%(default)s)")
    args = parser.parse_args(arguments)
    import torch

    torch.set_num_threads(1)
    rng = np.random.default_rng(args.seed)
    lessons = make_lessons(rng)
    texts = [message.content for lesson in lessons for message in lesson.messages]
    tokenizer = make_tokenizer(texts, size=VOCABULARY, max_context=MAX_CONTEXT)
    encoded = [encode(tokenizer, lesson) for lesson in lessons]
    print(f"{len(lessons):,} lessons, {sum(len(ids) for ids, _ in encoded):,} tokens")
    model = make_model(len(tokenizer), args.seed)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters, {len(tokenizer)} token kinds", flush=True)
    for line in train(model, encoded, tokens=args.tokens, seed=args.seed):
        print(line, flush=True)
    model.half().save_pretrained(args.folder)
    tokenizer.save_pretrained(args.folder)
    facts = {"seed": args.seed, "tokens": args.tokens, "lessons": len(lessons)}
    (args.folder / "warm_start.json").write_text(json.dumps(facts) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
