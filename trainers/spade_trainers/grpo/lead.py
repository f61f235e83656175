"""The trainer of a run under torchrun: process 0 leads, and the others do what it does.

Every process has a :class:`~spade_trainers.grpo.update.GrpoTrainer` on its part of the weights. Process 0, which runs
the cycle and owns the engine that plays, tells each call to the others and then makes it itself.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from spade_gym.selfplay.trainer import UpdateBatch
from spade_trainers.grpo.guard import check_trajectories
from spade_trainers.grpo.orders import Load, Make, Order, Save, Update, packed, unpacked
from spade_trainers.grpo.policy import GrpoError
from spade_trainers.grpo.processes import Processes
from spade_trainers.grpo.settings import GrpoSettings
from spade_trainers.grpo.sharding import sharded_copy
from spade_trainers.grpo.update import GrpoTrainer, Publish


class LeadTrainer:
    """A :class:`spade_gym.selfplay.trainer.Trainer` whose work several processes share.

    Args:
        model: The weights to begin with; they are copied, and may be the engine's own.
        settings: What all are told.
        publish: Called with whole weights after every update and every ``load``.
        processes: All; the others must be in :func:`follow`.
        tokenizer: Written into checkpoints; ``None`` for none.
        policy_version: Of the weights as they are.
        end_ids: As for ``GrpoTrainer``.

    Raises:
        GrpoError: The model or the settings cannot be trained by several processes.
    """

    def __init__(
        self,
        model: Any,
        settings: GrpoSettings,
        publish: Publish,
        processes: Processes,
        *,
        tokenizer: Any = None,
        policy_version: int = 0,
        end_ids: Iterable[int] = (),
    ) -> None:
        if settings.lora_rank:
            raise GrpoError("adapters cannot be trained by several processes yet: use lora_rank = 0, or one process")
        self._processes = processes
        order = Make(
            dataclasses.asdict(settings),
            model.config.to_json_string(use_diff=False),
            str(model.dtype).removeprefix("torch."),
            policy_version,
        )
        self._tell(order)
        self._own = _made(order, processes, model, _whole(publish), tokenizer=tokenizer, end_ids=end_ids)
        self._vocabulary = int(model.get_input_embeddings().weight.shape[0])

    def update(self, batch: UpdateBatch) -> Mapping[str, float]:
        """Learn from a batch, together.

        Raises:
            GrpoError: Something is not finite, or a process has ended.
            ValueError: A trajectory cannot be learnt from.
        """
        check_trajectories(batch.trajectories, self._vocabulary)  # before anybody else is told
        self._tell(Update(batch))
        with self._processes.together():
            return self._own.update(batch)

    def save(self, folder: Path) -> None:
        """Write a checkpoint; one process can go on from it as well as several."""
        self._tell(Save())
        with self._processes.together():
            self._own.save(folder)

    def load(self, folder: Path) -> None:
        """Go on from a checkpoint, which every process must see under this path.

        Raises:
            GrpoError: One of them finds none of this model and these settings.
        """
        self._tell(Load(str(folder.absolute())))
        with self._processes.together():
            self._own.load(folder)

    def _tell(self, order: Order) -> None:
        self._processes.tell(packed(order))


def follow(processes: Processes) -> None:
    """Do what process 0 does until it says that the run is over.

    Raises:
        LeaderGone: It has ended before.
        GrpoError: As in process 0.
        ValueError: As in process 0.
    """
    trainer: GrpoTrainer | None = None
    while True:
        order = unpacked(processes.hear())
        if isinstance(order, Make):
            trainer = _made(order, processes, None, _nobody)
            continue
        if trainer is None or not isinstance(order, Update | Save | Load):
            return
        with processes.together():
            if isinstance(order, Update):
                trainer.update(order.batch)
            elif isinstance(order, Save):
                trainer.save(Path())  # process 0 knows where, and writes
            else:
                _try_to_load(trainer, Path(order.folder))


def _try_to_load(trainer: GrpoTrainer, folder: Path) -> None:
    """Load where all can; where one cannot, process 0 decides what comes next."""
    try:
        trainer.load(folder)
    except GrpoError:
        return


def _made(
    order: Make,
    processes: Processes,
    source: Any,
    publish: Publish,
    *,
    tokenizer: Any = None,
    end_ids: Iterable[int] = (),
) -> GrpoTrainer:
    settings = GrpoSettings.read(order.settings)
    config, dtype = json.loads(order.config), getattr(torch, order.dtype)
    copies = [sharded_copy(source, config, dtype, processes) for _ in range(2 if settings.kl else 1)]
    return GrpoTrainer(
        copies[0],
        settings,
        publish,
        tokenizer=tokenizer,
        policy_version=order.policy_version,
        end_ids=end_ids,
        processes=processes,
        reference=copies[-1],
    )


def _whole(publish: Publish) -> Publish:
    """Hand weights on, and read on to the last one whatever was taken: the others count on it."""

    def handed(version: int, weights: Iterable[tuple[str, Any]]) -> None:
        remaining = iter(weights)
        publish(version, remaining)
        _nobody(version, remaining)

    return handed


def _nobody(version: int, weights: Iterable[tuple[str, Any]]) -> None:
    """Take part in bringing weights together, for others."""
    for _ in weights:
        pass
