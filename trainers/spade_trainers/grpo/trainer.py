"""The entry point ``grpo`` of the group ``spade_gym.trainers``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from spade_trainers.grpo.settings import GrpoSettings

if TYPE_CHECKING:
    from spade_gym.models.base import LanguageModel
    from spade_trainers.grpo.lead import LeadTrainer
    from spade_trainers.grpo.processes import Processes
    from spade_trainers.grpo.update import GrpoTrainer


def make(model: LanguageModel, settings: Mapping[str, Any]) -> GrpoTrainer | LeadTrainer:
    """Make a trainer for the model that plays.

    An engine of transformers in this process (``transformers:``, ``smollm2``) is trained in place: it samples with the
    trained weights themselves. Another one that takes weights (``vllm:``) is handed them after every update; the option
    ``path`` then says which weights to train, the same that the engine has opened. Under torchrun the weights are
    copied and spread over its processes (docs/scale.md), and every engine is handed them.

    Args:
        model: The engine.
        settings: See :class:`spade_trainers.grpo.settings.GrpoSettings`.

    Raises:
        GrpoError: torch is missing, or the engine cannot be trained.
        ModelError: The weights of ``path`` cannot be loaded.
        RecipeError: A setting is unknown or out of range.
    """
    told = GrpoSettings.read(settings)
    _require_packages()
    import torch

    from spade_trainers.grpo.lead import LeadTrainer
    from spade_trainers.grpo.policy import GrpoError
    from spade_trainers.grpo.processes import num_processes
    from spade_trainers.grpo.update import GrpoTrainer

    update_weights = getattr(model, "update_weights", None)
    if update_weights is None:
        raise GrpoError(f"{model.name} does not take new weights; play with transformers:, smollm2 or vllm:")
    own = getattr(model, "model", None)
    if isinstance(own, torch.nn.Module):
        if told.path:
            raise GrpoError(f"{model.name} is trained in place: leave out path, got {told.path!r}")
        weights, tokenizer = own, model.tokenizer  # type: ignore[attr-defined]
    else:
        if not told.path:
            raise GrpoError(f"{model.name} keeps its own weights: the option path must say which ones to train")
        if told.lora_rank:
            raise GrpoError(
                f"{model.name} would need adapters merged into every weight that it gets; use lora_rank = 0"
            )
        from spade_gym.models.load_transformers import load

        weights, tokenizer = load(told.path, device=told.device or None, dtype=told.dtype or None)
    extra: dict[str, Any] = {
        "tokenizer": tokenizer,
        "policy_version": int(getattr(model, "policy_version", 0)),
        "end_ids": _end_ids(weights, tokenizer),
    }
    if num_processes() > 1:
        return LeadTrainer(weights, told, update_weights, _led(), **extra)
    in_place = weights is own
    return GrpoTrainer(
        weights, told, (lambda number, _: update_weights(number)) if in_place else update_weights, **extra
    )


def _led() -> Processes:
    """Join the other processes of this torchrun, which must follow.

    Raises:
        GrpoError: This one is not the first, so nobody leads.
    """
    from spade_trainers.grpo.policy import GrpoError
    from spade_trainers.grpo.processes import join, rank

    if rank():
        raise GrpoError(
            "torchrun started several runs beside one another; start one that several processes train: "
            "torchrun --nproc-per-node N -m spade_trainers.grpo selfplay …"
        )
    return join()


def _end_ids(model: Any, tokenizer: Any) -> set[int]:
    from spade_gym.models.model_facts import end_ids_of

    return end_ids_of(model, tokenizer)


def _require_packages() -> None:
    try:
        import torch  # noqa: F401  (only whether it is there)
        import transformers  # noqa: F401
    except ImportError as error:
        from spade_gym.errors import SpadeError

        raise SpadeError(
            f"the trainer 'grpo' needs torch and transformers ({error}): pip install 'spade-gym[grpo]'"
        ) from error
