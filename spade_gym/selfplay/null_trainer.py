"""A trainer that changes nothing: for runs that only record, and as the smallest example of the protocol."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spade_gym.models.base import LanguageModel
from spade_gym.selfplay.trainer import UpdateBatch

_FILE = "null.json"


class NullTrainer:
    """Counts what it is shown.

    Attributes:
        num_updates: Updates so far.
    """

    def __init__(self) -> None:
        self.num_updates = 0

    def update(self, batch: UpdateBatch) -> Mapping[str, float]:
        """Return how many trajectories and tokens there were to learn from, by role."""
        self.num_updates += 1
        metrics: dict[str, float] = {}
        for role in ("agent", "designer"):
            mine = [item for item in batch.trajectories if item.role == role]
            metrics[f"{role}/trajectories"] = float(len(mine))
            metrics[f"{role}/tokens"] = float(sum(sum(sample.mask) for item in mine for sample in item.samples))
            metrics[f"{role}/nonzero_advantages"] = float(sum(item.advantage != 0 for item in mine))
        return metrics

    def save(self, folder: Path) -> None:
        """Write the count."""
        (folder / _FILE).write_text(json.dumps({"num_updates": self.num_updates}), encoding="utf-8")

    def load(self, folder: Path) -> None:
        """Read the count."""
        self.num_updates = int(json.loads((folder / _FILE).read_text("utf-8"))["num_updates"])


def make(model: LanguageModel, settings: Mapping[str, Any]) -> NullTrainer:
    """The factory of the entry point ``null``.

    Raises:
        ValueError: It is given a setting.
    """
    if settings:
        raise ValueError(f"the trainer 'null' has no settings, got {', '.join(settings)}")
    return NullTrainer()
