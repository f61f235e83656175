"""Our side: the trainer ``grpo`` and the engine that plays with the same weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

from spade_gym.models.base import ModelRequest, Sampling
from spade_gym.models.sample import Sample
from spade_gym.models.transformers_model import TransformersModel
from spade_gym.selfplay.trainer import Trajectory, UpdateBatch
from spade_trainers.bench.side import Work, timed
from spade_trainers.bench.workload import SHAPES, Workload, group_of, model_of, tokenizer_of
from spade_trainers.grpo.settings import GrpoSettings
from spade_trainers.grpo.trainer import make

#: Of weights that no trainer here has: the completions are made up, and the trainer need not compare them with its own.
_NO_VERSION = -1


class Ours:
    """The trainer and its engine.

    Args:
        workload: What is computed.
        **changes: To the trainer's options.

    Attributes:
        setting: How it was set, in words.
    """

    def __init__(self, workload: Workload, **changes: Any) -> None:
        self._workload, self._group = workload, group_of(workload)
        self._model = model_of(workload.shape, device=workload.device, weights=workload.weights)
        self._engine = TransformersModel(self._model, tokenizer_of(workload.shape), end_ids=())
        options: dict[str, Any] = {
            "aggregation": "token", "weight_decay": 0.0, "betas": (0.9, 0.999), "weight_cap": 0.0, "layout": "packed",
            "token_budget": workload.group * (workload.prompt_tokens + workload.completion_tokens),
            "autocast": "bfloat16" if workload.precision == "bfloat16" else "off",
            "gradient_checkpointing": workload.checkpointing,
            "least_shared": GrpoSettings().least_shared if workload.shared else 0,
            **changes,
        }  # fmt: skip
        self._trainer = make(self._engine, options)
        shared = "the prompt computed once" if workload.shared else "nothing shared"
        twice = f"gradient_checkpointing {workload.checkpointing}"
        self.setting = f"layout packed, {shared}, autocast {options['autocast']}, {twice}"
        self._num_updates = self._num_generations = 0

    def update(self) -> Work:
        """See ``Side``."""
        batch = self._batch()
        self._num_updates += 1
        metrics, work = timed(lambda: self._trainer.update(batch), self._workload.device)
        return work._replace(gradient_norm=metrics["gradient_norm"])

    def generate(self) -> Work:
        """See ``Side``; every call begins without anything remembered."""
        self._engine.update_weights(self._engine.policy_version)
        self._num_generations += 1
        sampling = Sampling(self._workload.sampled_tokens, temperature=1.0, top_p=1.0, top_k=0)

        def sample() -> int:
            for number in range(self._workload.group):
                seed = 1000 * self._num_generations + number
                self._engine.submit(ModelRequest(str(number), (), sampling, seed, tuple(self._group.prompt)))
            tokens = 0
            while completions := self._engine.collect():
                tokens += sum(completion.completion_tokens for completion in completions)
            return tokens

        tokens, work = timed(sample, self._workload.device)
        return work._replace(tokens=tokens)

    def gradient(self, weights: Mapping[str, Any]) -> dict[str, Any]:
        """Make an update of these weights, and return the gradient of each by name."""
        self._model.load_state_dict(weights)
        found: dict[str, Any] = {}
        for name, value in self._model.named_parameters():
            value.register_post_accumulate_grad_hook(partial(_keep, found, name))
        self.update()
        return found

    def _batch(self) -> UpdateBatch:
        group = self._group
        return UpdateBatch(self._num_updates, tuple(
            Trajectory(str(number), "agent", "g", reward, advantage, (self._sample(ids),), 0)
            for number, (ids, reward, advantage) in enumerate(
                zip(group.completions, group.rewards, group.advantages, strict=True)
            )
        ))  # fmt: skip

    def _sample(self, ids: list[int]) -> Sample:
        prompt = self._group.prompt
        numbers = (*[0.0] * len(prompt), *[-math.log(SHAPES[self._workload.shape]["vocab_size"])] * len(ids))
        mask = (*[0] * len(prompt), *[1] * len(ids))
        return Sample((*prompt, *ids), mask, numbers, numbers, (_NO_VERSION,))


def _keep(found: dict[str, Any], name: str, value: Any) -> None:
    found[name] = value.grad.clone()
