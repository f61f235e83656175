"""AdamW on the trained weights, with single-precision masters of half-precision ones.

A step of 1e-6 is far below what bfloat16 can add to a weight: without masters such a model would never change.
Gradients of half-precision weights are summed up in the masters' precision too, micro-batch by micro-batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from spade_trainers.grpo.settings import GrpoSettings
from spade_trainers.grpo.sharding import like, own_part, whole

_HALF = (torch.bfloat16, torch.float16)
_MOMENTS = ("exp_avg", "exp_avg_sq", "step")


class Optimiser:
    """AdamW; weight decay on matrices only.

    Args:
        parameters: By name; those that need a gradient are trained.
        settings: Rates.

    Attributes:
        trained: The trained parameters of the model, by name.
        masters: Single-precision copies of those that are of half precision, by the same names.
    """

    def __init__(self, parameters: Iterable[tuple[str, torch.nn.Parameter]], settings: GrpoSettings) -> None:
        self.trained = {name: parameter for name, parameter in parameters if parameter.requires_grad}
        self.masters = {
            name: torch.nn.Parameter(parameter.detach().float())
            for name, parameter in self.trained.items()
            if parameter.dtype in _HALF
        }
        self._stepped = {**self.trained, **self.masters}
        for name, master in self.masters.items():
            hook = _summing_into(master)
            self.trained[name].register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call,unused-ignore]
        self._max_norm = settings.max_grad_norm
        matrices = [parameter for parameter in self._stepped.values() if parameter.dim() > 1]
        vectors = [parameter for parameter in self._stepped.values() if parameter.dim() <= 1]
        self._adam = torch.optim.AdamW(
            [
                {"params": matrices, "weight_decay": settings.weight_decay},
                {"params": vectors, "weight_decay": 0.0},
            ],
            lr=settings.learning_rate,
            betas=(settings.betas[0], settings.betas[1]),
            fused=True,
        )

    def clear(self) -> None:
        """Forget gradients."""
        for parameter in (*self.trained.values(), *self.masters.values()):
            parameter.grad = None

    def clip(self) -> float:
        """Scale gradients down to the largest norm; return what the norm was, not finite if a gradient is not."""
        return float(whole(torch.nn.utils.clip_grad_norm_(self._stepped.values(), self._max_norm)))

    def step(self) -> None:
        """Change the weights, and forget the gradients."""
        self._adam.step()
        with torch.no_grad():
            for name, master in self.masters.items():
                self.trained[name].copy_(master)
        self.clear()

    def not_finite(self) -> list[str]:
        """Names of weights whose gradient is not finite, in the part that this process holds."""
        return [
            name
            for name, parameter in self._stepped.items()
            if parameter.grad is not None and not bool(own_part(parameter.grad).isfinite().all())
        ]

    def state(self) -> dict[str, torch.Tensor]:
        """Return Adam's moments and step counts as ``<kind>.<name>``; empty before the first step."""
        return {
            f"{kind}.{name}": value
            for name, parameter in self._stepped.items()
            for kind, value in self._adam.state.get(parameter, {}).items()
        }

    def load_state(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Take back what :meth:`state` returned.

        Raises:
            ValueError: A moment is missing, of another shape, or of a weight that is not trained.
        """
        known = {f"{kind}.{name}" for name in self._stepped for kind in _MOMENTS}
        if unknown := sorted(set(tensors) - known):
            raise ValueError(f"the optimiser's state holds {unknown[0]!r}, which is no weight trained here")
        found: dict[Any, dict[str, torch.Tensor]] = {}
        for name, parameter in self._stepped.items():
            mine = {kind: tensors[f"{kind}.{name}"] for kind in _MOMENTS if f"{kind}.{name}" in tensors}
            if not mine:
                continue
            if len(mine) < len(_MOMENTS) or mine["exp_avg"].shape != parameter.shape:
                raise ValueError(f"the optimiser's state of {name!r} is not whole, or of another shape")
            held = {kind: value.to(parameter.device, copy=True) for kind, value in mine.items()}
            found[parameter] = {
                kind: value if kind == "step" else like(value, parameter) for kind, value in held.items()
            }
        self._adam.state.clear()
        self._adam.state.update(found)


def _summing_into(master: torch.nn.Parameter) -> Any:
    def add(parameter: torch.nn.Parameter) -> None:
        assert parameter.grad is not None
        gradient = parameter.grad.float()
        master.grad = gradient if master.grad is None else master.grad.add_(gradient)
        parameter.grad = None

    return add
