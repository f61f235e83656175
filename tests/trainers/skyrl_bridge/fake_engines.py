"""SkyRL's inference engines as far as the bridge uses them, over bytes as tokens, and batches of its prompts."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import Any

from models.byte_tokenizer import ByteTokenizer
from rollout.games import guess

from spade_trainers.skyrl_bridge.dataset import row_of


class Tokenizer(ByteTokenizer):
    """With what SkyRL's generators ask for."""

    chat_template = "written in Python"
    pad_token_id = 0

    def __len__(self) -> int:
        return 300


@dataclass
class TrajectoryID:
    instance_id: str
    repetition_id: int


@dataclass
class BatchMetadata:
    global_step: int
    training_phase: str


class Engines:
    """Reads a goal out of the prompt and guesses it at every other seed; answers come in another order."""

    weight_version = 4

    def __init__(self, tokenizer: Any, *, thinks: bool = False, fails_at: int | None = None) -> None:
        self.tokenizer = tokenizer
        self.thinks = thinks
        self.fails_at = fails_at
        self.inputs: list[dict[str, Any]] = []
        self.finished: list[str] = []

    async def generate(self, input_batch: dict[str, Any], model: str | None = None) -> dict[str, Any]:
        self.inputs.append({**input_batch, "model": model})
        number, seed = len(self.inputs), input_batch["sampling_params"]["seed"]
        await asyncio.sleep(0.001 * (seed % 7))
        if number == self.fails_at:
            raise ConnectionError("no engine")
        goal = re.findall(r"Guess (\d)\.", self.tokenizer.decode(input_batch["prompt_token_ids"][0]))[-1]
        text = f"\\boxed{{{goal if seed % 2 else 9}}}"
        if self.thinks:
            text = f"<think>It is {goal}.</think>{text}"
        ids = [*self.tokenizer.encode(text), self.tokenizer.eos_token_id]
        return {
            "responses": [text],
            "response_ids": [ids],
            "stop_reasons": ["stop"],
            "response_logprobs": [[-0.5] * len(ids)],
        }

    async def finish_session(self, session_id: str) -> None:
        self.finished.append(session_id)


def batch_of(
    num_programs: int = 3, plays: int = 4, *, step: int = 7, ids: Any = TrajectoryID, meta: Any = BatchMetadata
):
    """A batch as SkyRL's ``prepare_generator_input`` makes it."""
    rows = [row_of(guess(max_turns=2), seed=number) for number in range(num_programs)]
    repeated = [(row, number) for row in rows for number in range(plays)]
    return {
        "prompts": [row["prompt"] for row, _ in repeated],
        "env_classes": ["spade"] * len(repeated),
        "env_extras": [{name: row[name] for name in ("source", "manifest", "seed")} for row, _ in repeated],
        "sampling_params": {
            "max_tokens": 64,
            "temperature": 0.6,
            "top_p": 0.95,
            "top_k": 20,
            "logprobs": 1,
            "stop": None,
        },
        "trajectory_ids": [ids(str(row["seed"]), number) for row, number in repeated],
        "batch_metadata": meta(step, "train"),
    }
