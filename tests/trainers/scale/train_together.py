"""What a process of torchrun runs in ``test_scale_processes.py``: process 0 trains, saves and loads; others follow."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
from pathlib import Path

import torch
from trainers.grpo.grpo_policies import engine, mixed_batch, tiny

from spade_gym.selfplay.trainer import UpdateBatch
from spade_trainers.grpo.lead import follow
from spade_trainers.grpo.orders import Stop, packed
from spade_trainers.grpo.policy import GrpoError
from spade_trainers.grpo.processes import join, num_processes, rank
from spade_trainers.grpo.trainer import make
from spade_trainers.grpo.update import GrpoTrainer

SIZES = {"num_hidden_layers": 3}


def batches(blow_up: int | None) -> list[UpdateBatch]:
    """What the initial weights sampled; an advantage of one trajectory can be beyond what float32 holds."""
    model = tiny(**SIZES)
    found = [mixed_batch(model, seed=seed) for seed in range(4)]
    if blow_up is None:
        return found
    first = list(found[0].trajectories)
    first[blow_up] = dataclasses.replace(first[blow_up], advantage=1e300)
    return [UpdateBatch(0, tuple(first))]


def end_at_second_update(number: int) -> None:
    """Let the process of a rank end without a word when it is told its second update."""
    original, calls = GrpoTrainer.update, []

    def update(self: GrpoTrainer, batch: UpdateBatch) -> object:
        calls.append(batch)
        if rank() == number and len(calls) == 2:
            os._exit(7)
        return original(self, batch)

    GrpoTrainer.update = update  # type: ignore[method-assign]


def main(told: dict) -> None:
    torch.set_num_threads(1)
    if told.get("dies") is not None:
        end_at_second_update(told["dies"])
    if rank():
        follow(join())
        return
    folder = Path(told["folder"])
    player = engine(tiny(**SIZES, tie_word_embeddings=told.get("tied", False)).to(getattr(torch, told["dtype"])))
    trainer = make(player, told["options"])
    if told.get("resume"):
        with contextlib.suppress(GrpoError):  # no process has one, and the others go on
            trainer.load(folder / "missing")
            raise AssertionError("a checkpoint that is missing was loaded")
        trainer.load(Path(told["resume"]))
    found = [dict(trainer.update(batch)) for batch in batches(told.get("blow_up"))[told["first"] : told["last"]]]
    trainer.save(folder)
    torch.save(player.model.state_dict(), folder / "played.pt")
    (folder / "metrics.json").write_text(json.dumps([found, player.policy_version]))
    if num_processes() > 1:
        join().tell(packed(Stop()))


if __name__ == "__main__":
    try:
        main(json.loads(sys.argv[1]))
    except GrpoError as error:
        sys.exit(f"rank {rank()}: {error}")
