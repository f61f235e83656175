"""Metrics as TensorBoard shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spade_trainers.grpo.policy import GrpoError


class MetricsLog:
    """Writes metrics by the number of their rollout.

    Args:
        folder: TensorBoard's; "" writes nothing.

    Raises:
        GrpoError: tensorboard is not installed.
    """

    def __init__(self, folder: str) -> None:
        self._writer: Any = None
        if not folder:
            return
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise GrpoError(f"the setting tensorboard needs its package ({error}): pip install tensorboard") from error
        self._writer = SummaryWriter(folder)  # type: ignore[no-untyped-call,unused-ignore]

    def write(self, rollout: int, metrics: Mapping[str, float]) -> None:
        """Write the metrics of one update; a repeated rollout is written again."""
        if self._writer is None:
            return
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, rollout)
        self._writer.flush()
