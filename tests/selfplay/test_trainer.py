from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from spade_gym.selfplay.null_trainer import NullTrainer, make
from spade_gym.selfplay.trainer import UpdateBatch
from spade_gym.testing import check_trainer


def test_the_null_trainer_keeps_the_promises() -> None:
    check_trainer(NullTrainer)


def test_the_null_trainer_has_no_settings() -> None:
    with pytest.raises(ValueError, match="no settings, got rate"):
        make(None, {"rate": 1})  # type: ignore[arg-type]


class Forgetful(NullTrainer):
    """Does not go on where it was."""

    def update(self, batch: UpdateBatch) -> Mapping[str, float]:
        super().update(batch)
        return {"updates": float(self.num_updates)}

    def load(self, folder: Path) -> None:
        self.num_updates = 0


class Infinite(NullTrainer):
    def update(self, batch: UpdateBatch) -> Mapping[str, float]:
        return {"loss": float("nan")}


class Lazy(NullTrainer):
    def save(self, folder: Path) -> None:
        pass


@pytest.mark.parametrize(("kind", "told"), [(Forgetful, "after load"), (Infinite, "finite"), (Lazy, "save must write")])
def test_broken_promises_are_found(kind: type[NullTrainer], told: str) -> None:
    with pytest.raises(AssertionError, match=told):
        check_trainer(kind)
