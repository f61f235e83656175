"""What the trainer is told: the table ``[trainer] options`` of a recipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from spade_gym.curriculum.finite import at_least, whole_number
from spade_gym.selfplay.settings_table import read_table

AdvantageRule = Literal["given", "z-score", "centred", "leave-one-out"]
Aggregation = Literal["token", "sequence", "fixed", "group"]
Layout = Literal["auto", "packed", "rows"]
Autocast = Literal["auto", "bfloat16", "off"]
WandbMode = Literal["offline", "online"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpoSettings:
    """Everything that changes an update. Defaults: method, section 7.

    Attributes:
        learning_rate: Constant.
        betas: Of Adam's two moments.
        weight_decay: AdamW's, on matrices only (norms and biases are left alone, as Megatron does).
        max_grad_norm: Gradients are scaled down to this norm.
        clip: Whether ρ is clipped.
        clip_low, clip_high: Then it counts within [1 − clip_low, 1 + clip_high].
        weight_cap: Bound of w = π_prox / π_behaviour; 0 switches w off (w = 1).
        kl: Coefficient of the k3 estimate of KL(π_θ, initial weights); 0 needs no reference.
        entropy: Coefficient of the entropy bonus.
        aggregation: What a token counts (``aggregation.py``): ``token`` (DAPO), ``sequence`` (GRPO), ``fixed``
            (Dr. GRPO), ``group`` (as released).
        fixed_length: Divisor of ``fixed``, in tokens.
        advantages: ``given``: the cycle's. Otherwise the agent's are computed anew from the rewards of each group; the
            designer's are always the cycle's.
        drop_equal_groups: Leave agent groups out, and out of all counts, whose rewards are all equal (DAPO).
        epochs: Passes over the batch.
        minibatches: Optimiser steps a pass; trajectories are dealt to them at random.
        seed: Seeds that dealing.
        token_budget: Most tokens of a micro-batch; a longer sample is one alone.
        layout: ``packed``: samples behind one another in one row, kept apart in the attention. ``rows``: rows of
            similar length, padded. ``auto``: packed where a check shows that this model keeps them apart.
        least_shared: Packed samples of a micro-batch that begin with at least so many tokens alike compute these once;
            0: never.
        head_mib: Memory for logits at a time; 0 for 64 MiB on a CPU and 1024 MiB on a GPU.
        autocast: ``bfloat16``: products in half precision, weights and sums as they are. ``auto``: on a GPU only; CPUs
            with units for it (amx_bf16 in /proc/cpuinfo) are faster with it, others slower.
        gradient_checkpointing: Compute activations twice instead of keeping them.
        lora_rank: 0 trains all weights; otherwise adapters of this rank (needs peft).
        lora_alpha: Their scale is lora_alpha / lora_rank.
        lora_targets: Names of the layers that get one; ``all-linear`` for all but the head.
        path: Folder or id of the weights to train, where the engine that plays keeps its own (vLLM, a server).
        device, dtype: Of those weights, as for ``transformers:``; "" for the default.
        tensorboard: Folder for TensorBoard; "" for none.
        wandb: Project of Weights & Biases (https://wandb.ai); "" for none.
        wandb_mode: ``offline`` writes files, which ``wandb sync`` sends later; ``online`` sends at once, with the key
            that ``wandb login`` or ``WANDB_API_KEY`` has set.
        wandb_folder: Where its folder ``wandb`` is made; "" for the present folder.
        faults_folder: Where trajectories go whose update is not finite; "" for a new temporary folder.
    """

    learning_rate: float = 1e-6
    betas: tuple[float, ...] = (0.9, 0.98)
    weight_decay: float = 0.1
    max_grad_norm: float = 1.0
    clip: bool = True
    clip_low: float = 0.2
    clip_high: float = 0.28
    weight_cap: float = 2.0
    kl: float = 0.0
    entropy: float = 0.0
    aggregation: Aggregation = "group"
    fixed_length: int = 8192
    advantages: AdvantageRule = "given"
    drop_equal_groups: bool = False
    epochs: int = 1
    minibatches: int = 1
    seed: int = 0
    token_budget: int = 8192
    layout: Layout = "auto"
    least_shared: int = 16
    head_mib: int = 0
    autocast: Autocast = "auto"
    gradient_checkpointing: bool = False
    lora_rank: int = 0
    lora_alpha: float = 32.0
    lora_targets: tuple[str, ...] = ("all-linear",)
    path: str = ""
    device: str = ""
    dtype: str = ""
    tensorboard: str = ""
    wandb: str = ""
    wandb_mode: WandbMode = "offline"
    wandb_folder: str = ""
    faults_folder: str = ""

    def __post_init__(self) -> None:
        """Refuse values with which an update means nothing."""
        for name in ("learning_rate", "max_grad_norm", "lora_alpha"):
            at_least(name, getattr(self, name), 0.0, strictly=True)
        for name in ("weight_decay", "weight_cap", "kl", "entropy", "clip_low", "clip_high"):
            at_least(name, getattr(self, name), 0.0)
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas must be two numbers from 0 to below 1, got {self.betas!r}")
        for name in ("epochs", "minibatches", "token_budget", "fixed_length"):
            whole_number(name, getattr(self, name), least=1)
        for name in ("seed", "head_mib", "lora_rank", "least_shared"):
            whole_number(name, getattr(self, name), least=0)

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> GrpoSettings:
        """Read them from a recipe.

        Raises:
            RecipeError: An unknown key, or a value that is out of range.
        """
        return read_table(cls, options, "[trainer] options")

    @property
    def num_steps(self) -> int:
        """Optimiser steps of an update."""
        return self.epochs * self.minibatches
