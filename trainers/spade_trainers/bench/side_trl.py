"""The other side: TRL's own ``GRPOTrainer``, as it is installed.

Its loop runs as ever. Between two optimiser steps a callback waits for commands; an update is what TRL does from there
until the weights have changed. Completions come from a ``rollout_func``, which costs no time; generation is TRL's own
method.
"""

from __future__ import annotations

import tempfile
import time
from typing import Any

from spade_trainers.bench.peak import give_back
from spade_trainers.bench.side import Line, Work, finish, timed
from spade_trainers.bench.workload import PAD_ID, Workload, group_of, model_of, tokenizer_of

#: More steps than anybody asks for.
_STEPS = 1_000


class _Quit(BaseException):
    """Ends TRL's loop from inside a callback; not an error that TRL might handle."""


class Trl:
    """TRL's trainer.

    Args:
        workload: What is computed.
        line: To the process that compares.
    """

    def __init__(self, workload: Workload, line: Line) -> None:
        self._workload, self._group, self._line = workload, group_of(workload), line
        self._folder = tempfile.TemporaryDirectory(prefix="spade-bench-")
        self._trainer = self._make()
        self._begun = self._started = 0.0
        self._asked = self._told = False

    @property
    def setting(self) -> str:
        """How it was set, in words."""
        import trl

        half = self._workload.precision == "bfloat16"
        return (
            f"trl {trl.__version__}, GRPOTrainer, loss dapo, its fused log-probabilities, sdpa, fused AdamW, "
            f"bf16={half}, gradient_checkpointing={self._workload.checkpointing}, beta 0"
        )

    def run(self) -> None:
        """Serve commands until the last one."""
        try:
            self._trainer.train()
        except _Quit:
            pass
        finally:
            self._folder.cleanup()

    def generate(self) -> Work:
        """See ``Side``."""
        prompts = [list(self._group.prompt) for _ in range(self._workload.group)]
        (ids, _), work = timed(
            lambda: self._trainer._generate_single_turn(prompts, None, {}, self._workload.group), self._workload.device
        )
        return work._replace(tokens=sum(map(len, ids)))

    def update(self) -> Work:
        """Not called: TRL's loop makes the updates."""
        raise NotImplementedError

    # ---- what the callback does

    def before_step(self) -> None:
        """Serve commands until an update is wanted."""
        if not self._told:
            self._told = True
            self._line.tell(ready=self.setting)
        while (command := self._line.command()) != "update":
            if command == "quit":
                raise _Quit
            self._line.serve(self, command)
        self._asked = True
        self._begun, self._started = time.perf_counter(), time.process_time()

    def after_step(self) -> None:
        """Note how long the update took; its gradient's norm is logged next."""
        finish(self._workload.device)
        self._work = Work(time.perf_counter() - self._begun, time.process_time() - self._started)

    def after_log(self, logs: dict[str, float]) -> None:
        """Answer the command."""
        if self._asked:
            self._asked = False
            norm = logs.get("grad_norm")
            give_back()
            self._line.tell(**self._work._replace(gradient_norm=None if norm is None else float(norm))._asdict())

    # ---- making it

    def _make(self) -> Any:
        from datasets import Dataset
        from trl import GRPOConfig, GRPOTrainer

        workload, group = self._workload, self._group
        settings = GRPOConfig(
            output_dir=self._folder.name, per_device_train_batch_size=workload.group, gradient_accumulation_steps=1,
            num_generations=workload.group, max_completion_length=workload.sampled_tokens, beta=0.0,
            bf16=workload.precision == "bfloat16", gradient_checkpointing=workload.checkpointing,
            use_cpu=workload.device == "cpu", optim="adamw_torch_fused", dataloader_pin_memory=False,
            max_steps=_STEPS, logging_steps=1, save_strategy="no", report_to=[],
            disable_tqdm=True, shuffle_dataset=False, learning_rate=1e-6, lr_scheduler_type="constant",
            generation_kwargs={"eos_token_id": None, "pad_token_id": PAD_ID},
        )  # fmt: skip

        def rollout(prompts: list[str], trainer: Any) -> dict[str, Any]:
            return {
                "prompt_ids": [list(group.prompt) for _ in prompts],
                "completion_ids": [list(ids) for ids in group.completions],
                "logprobs": None,
            }

        def reward(completions: list[str], **_: Any) -> list[float]:
            return group.rewards

        model = model_of(workload.shape, device=workload.device, weights=workload.weights)
        return GRPOTrainer(
            model=model, reward_funcs=reward, args=settings,
            train_dataset=Dataset.from_dict({"prompt": ["w5"] * workload.group}),
            processing_class=tokenizer_of(workload.shape), rollout_func=rollout, callbacks=[_callback(self)],
        )  # fmt: skip


def _callback(side: Trl) -> Any:
    from transformers import TrainerCallback

    class Steps(TrainerCallback):  # type: ignore[misc,unused-ignore]
        """Tells the side where TRL's loop stands."""

        def on_step_begin(self, *_: Any, **__: Any) -> None:
            side.before_step()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            side.after_step()

        def on_log(self, *_: Any, logs: dict[str, float], **__: Any) -> None:
            side.after_log(logs)

    return Steps()
