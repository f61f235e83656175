"""Train the small model from nothing on scripted lessons: ``python -m spade_trainers.small.warm_start FOLDER``.

Writes a model of transformers' ordinary form (configuration, weights in half precision as safetensors, tokenizer) with
a ``warm_start.json`` that says what it was made of. The shipped weights are the result of this command.

It learns in phases: first to write programs, then to copy and order lists, which takes a small transformer many short
episodes, then both, then from a script that slips the more the longer a list is (what is left to learn by
reinforcement), and at last to heed the examples in a request.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spade_gym.designer.prompting import Prompts
from spade_gym.prompt_folder import prompt_folder
from spade_trainers.small.families import THINGS
from spade_trainers.small.lessons import (
    FIRST_DESIGNS,
    LAST_DESIGNS,
    PLAYED,
    SKILL_FAMILIES,
    Designs,
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
_WARM_UP = 50

Encoded = tuple[list[int], list[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A part of the warm start.

    Attributes:
        seed: Of its lessons.
        lessons: Kinds of lessons and how many, in the order in which they are drawn; of ``play``, programs.
        episodes: Of each program that is played.
        skills: Shares of the skills of played programs; empty for all in turn.
        hinted: Share of the played programs whose player is given the hint.
        designs: How long the lists are that are asked for.
        careful: Whether the script never slips, on lists mostly of 2 to 4; otherwise it does, on all lengths alike.
        tokens: To learn from.
        batch_tokens: Of a batch.
        learning_rate: After a warm-up; it falls to ``floor`` of itself by half a cosine.
        floor: See there.
    """

    seed: int
    lessons: Mapping[str, int]
    episodes: int
    skills: Mapping[str, float]
    hinted: float
    designs: Designs = FIRST_DESIGNS
    careful: bool = True
    tokens: int
    batch_tokens: int = 3072
    learning_rate: float = 1e-3
    floor: float = 0.1


PHASES = (
    Phase(
        seed=0, lessons={"design": 5000, "hint": 1200, "play": 900}, episodes=24, skills={}, hinted=0.3,
        tokens=5_000_000, batch_tokens=6144, learning_rate=2e-3, floor=0.05,
    ),
    Phase(
        seed=1, lessons={"play": 1600, "design": 400}, episodes=40, hinted=0.2, tokens=4_000_000,
        skills={
            "Mathematical Reasoning": 0.4, "Logical Deduction": 0.3, "Pattern Recognition": 0.15,
            "Spatial Reasoning": 0.1, "Optimization": 0.05,
        },
    ),
    Phase(
        seed=2, lessons={"play": 1100, "design": 3000, "hint": 500}, episodes=40, hinted=0.2, tokens=4_500_000,
        skills={
            "Mathematical Reasoning": 0.12, "Logical Deduction": 0.48, "Pattern Recognition": 0.3,
            "Spatial Reasoning": 0.05, "Optimization": 0.05,
        },
    ),
    Phase(
        seed=3, lessons={"play": 900, "design": 2500, "hint": 300}, episodes=30, hinted=0.2, careful=False,
        tokens=3_000_000, learning_rate=7e-4,
        skills={
            "Mathematical Reasoning": 0.05, "Logical Deduction": 0.5, "Pattern Recognition": 0.08,
            "Spatial Reasoning": 0.35, "Optimization": 0.02,
        },
    ),
    Phase(
        seed=4, lessons={"design": 3000, "hint": 300, "play": 300}, episodes=30, hinted=0.2, careful=False,
        designs=LAST_DESIGNS, tokens=2_000_000, learning_rate=7e-4,
        skills={
            "Mathematical Reasoning": 0.05, "Logical Deduction": 0.55, "Pattern Recognition": 0.3,
            "Spatial Reasoning": 0.08, "Optimization": 0.02,
        },
    ),
)  # fmt: skip


def make_lessons(phase: Phase) -> list[Lesson]:
    """Write the lessons of a phase."""
    rng = np.random.default_rng(phase.seed)
    prompts = Prompts(prompt_folder("small", "designer"))
    lessons: list[Lesson] = []
    for kind, count in phase.lessons.items():
        for number in range(count):
            if kind == "design":
                lessons.append(design_lesson(rng, prompts, phase.designs))
            elif kind == "hint":
                lessons.append(hint_lesson(rng, prompts, phase.designs))
            else:
                lessons += _episodes(phase, number, rng)
    return lessons


def _episodes(phase: Phase, number: int, rng: np.random.Generator) -> Iterator[Lesson]:
    """Episodes of one more program."""
    if phase.skills:
        skill = str(rng.choice(list(phase.skills), p=list(phase.skills.values())))
    else:
        skill = list(SKILL_FAMILIES)[number % len(SKILL_FAMILIES)]
    thing = str(rng.choice(THINGS))
    length = length_of(rng, PLAYED) if phase.careful else int(rng.integers(min(PLAYED), max(PLAYED) + 1))
    made = draw_program(rng, skill, thing, length)
    seeds = rng.integers(1 << 30, size=phase.episodes).tolist()
    hint = bool(rng.random() < phase.hinted)
    return play_lessons(made, seeds, hint=hint, slips=None if phase.careful else rng)


def make_model(vocabulary: int, seed: int) -> Any:
    """Make a Llama of 1.3 million parameters with random weights; the global generator is left as it was."""
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


def encode(tokenizer: Any, lesson: Lesson) -> Encoded:
    """Return the ids of a lesson, and for each whether it is learnt (what the assistant says, with its end)."""
    ids: list[int] = []
    learnt: list[int] = []
    for message in lesson.messages:
        said = tokenizer.encode(message.content, add_special_tokens=False)
        own = message.role == "assistant"
        ids += [tokenizer.convert_tokens_to_ids(f"<|{message.role}|>"), *said, END]
        learnt += [0, *[int(own)] * (len(said) + 1)]
    return ids, learnt


def batches(encoded: Sequence[Encoded], rng: np.random.Generator, *, batch_tokens: int) -> Iterator[list[Encoded]]:
    """Deal lessons of similar length into batches of about so many tokens, for ever."""
    while True:
        order = rng.permutation(len(encoded))
        dealt: list[list[Encoded]] = []
        for begin in range(0, len(order), 2048):
            part = sorted((encoded[n] for n in order[begin : begin + 2048]), key=lambda item: len(item[0]))
            batch: list[Encoded] = []
            for item in part:
                if batch and (len(batch) + 1) * len(item[0]) > batch_tokens:
                    dealt.append(batch)
                    batch = []
                batch.append(item)
            dealt.append(batch)
        yield from (dealt[n] for n in rng.permutation(len(dealt)))


def padded(batch: Sequence[Encoded]) -> tuple[Any, Any]:
    """Return ids and labels of a batch as tensors of (lessons, longest); -100 where nothing is learnt."""
    import torch

    longest = max(len(ids) for ids, _ in batch)
    ids, labels = torch.full((len(batch), longest), PAD), torch.full((len(batch), longest), -100)
    for row, (own, learnt) in enumerate(batch):
        ids[row, : len(own)] = torch.tensor(own)
        labels[row, : len(own)] = torch.where(torch.tensor(learnt, dtype=torch.bool), torch.tensor(own), -100)
    return ids, labels


def train(model: Any, encoded: Sequence[Encoded], phase: Phase) -> Iterator[str]:
    """Minimise the cross-entropy of what is learnt, and say how it goes."""
    import torch

    optimiser = torch.optim.AdamW(model.parameters(), lr=phase.learning_rate, betas=(0.9, 0.95), weight_decay=0.01)
    model.train()
    done, begun = 0, time.process_time()
    dealt = batches(encoded, np.random.default_rng(0), batch_tokens=phase.batch_tokens)
    for number, batch in enumerate(dealt, start=1):
        ids, labels = padded(batch)
        fall = (1 + math.cos(math.pi * done / phase.tokens)) / 2
        for group in optimiser.param_groups:
            rate = phase.learning_rate * min(1.0, number / _WARM_UP)
            group["lr"] = rate * (phase.floor + (1 - phase.floor) * fall)
        loss = model(input_ids=ids, labels=labels).loss
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        done += ids.numel()
        if number % 100 == 0 or done >= phase.tokens:
            yield f"{done:>9,} tokens · loss {loss.item():.3f} · {time.process_time() - begun:.0f} CPU-seconds"
        if done >= phase.tokens:
            break
    model.eval()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the model is written")
    parser.add_argument("--share", type=float, default=1.0, help="of each phase's tokens, for trials (%(default)s)")
    args = parser.parse_args(arguments)
    import torch

    torch.set_num_threads(1)
    tokenizer: Any = None
    model: Any = None
    for number, phase in enumerate(PHASES):
        lessons = make_lessons(phase)
        if tokenizer is None:
            texts = [message.content for lesson in lessons for message in lesson.messages]
            tokenizer = make_tokenizer(texts, size=VOCABULARY, max_context=MAX_CONTEXT)
            model = make_model(len(tokenizer), phase.seed)
            print(f"{sum(p.numel() for p in model.parameters()):,} parameters, {len(tokenizer)} token kinds")
        print(f"phase {number}: {len(lessons):,} lessons", flush=True)
        encoded = [encode(tokenizer, lesson) for lesson in lessons]
        told = dataclasses.replace(phase, tokens=max(1, int(phase.tokens * args.share)))
        for line in train(model, encoded, told):
            print(line, flush=True)
        model.half().float()  # each phase begins with weights as they are kept
    model.half().save_pretrained(args.folder)
    tokenizer.save_pretrained(args.folder)
    facts = {"phases": [dataclasses.asdict(phase) for phase in PHASES], "share": args.share}
    (args.folder / "warm_start.json").write_text(json.dumps(facts, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
