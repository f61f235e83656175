"""Does the whole cycle learn? Programs in their jails, chats, plays, the cycle's advantages, the GRPO trainer."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from word_game import ROLLOUTS, agent_of, recipe_of

from spade_gym.selfplay.run import open_run
from spade_gym.selfplay.run_store import RunStore
from spade_gym.selfplay.selfplay import selfplay
from spade_gym.selfplay.trainer import Trainer, UpdateBatch


class Flipped:
    """A trainer that is told the opposite of what a play was worth."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer

    def update(self, batch: UpdateBatch) -> Mapping[str, float]:
        turned = (dataclasses.replace(item, advantage=-item.advantage) for item in batch.trajectories)
        return self._trainer.update(dataclasses.replace(batch, trajectories=tuple(turned)))

    def save(self, folder: Path) -> None:
        self._trainer.save(folder)

    def load(self, folder: Path) -> None:
        self._trainer.load(folder)


def success(folder: Path, *, seed: int, flipped: bool = False) -> list[float]:
    """Run the cycle; return the share of plays that were won, by rollout."""
    with open_run(recipe_of(folder, seed=seed), folder / "run", agent=agent_of(folder)) as run:
        if flipped:
            object.__setattr__(run, "trainer", Flipped(run.trainer))
        selfplay(run)
    with RunStore(folder / "run", read_only=True) as store:
        rows = store.rows("SELECT rollout, avg(won) AS share FROM plays GROUP BY rollout ORDER BY rollout")
    return [row["share"] for row in rows]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_bandit_of_programs_is_learnt_within_a_minute(seed: int, tmp_path: Path) -> None:
    begun = time.process_time()
    shares = success(tmp_path, seed=seed)
    assert len(shares) == ROLLOUTS
    assert shares[0] <= 0.3
    assert shares[-1] >= 0.95
    assert time.process_time() - begun < 60  # about 3; wall time is the machine's


def test_with_the_advantages_sign_flipped_it_is_not(tmp_path: Path) -> None:
    shares = success(tmp_path, seed=0, flipped=True)
    assert max(shares[ROLLOUTS // 2 :]) <= 0.3
