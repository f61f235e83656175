"""What a trainer is handed by a whole cycle."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from selfplay.small_runs import small_recipe, small_run

from spade_gym.selfplay.null_trainer import NullTrainer
from spade_gym.selfplay.selfplay import selfplay
from spade_gym.selfplay.trainer import UpdateBatch


class Collector(NullTrainer):
    """Keeps what it was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[UpdateBatch] = []

    def update(self, batch: UpdateBatch) -> Mapping[str, float]:
        self.batches.append(batch)
        return super().update(batch)


@pytest.mark.parametrize("std", ["true", "false"])
def test_advantages_sum_to_zero_in_every_group_and_skill_of_every_batch(std: str, tmp_path: Path) -> None:
    collector = Collector()
    recipe = small_recipe(tmp_path, "cycle.environments=6", "cycle.plays=6", f"agent.std={std}")
    with small_run(tmp_path / "run", recipe) as run:
        object.__setattr__(run, "trainer", collector)
        selfplay(run)
    groups: dict[tuple[int, str, str], list[float]] = {}
    for batch in collector.batches:
        for item in batch.trajectories:
            groups.setdefault((batch.rollout, item.role, item.group), []).append(item.advantage)
    for advantages in groups.values():
        assert sum(advantages) == pytest.approx(0.0, abs=1e-9)
    assert sum(len(found) for (_, role, _), found in groups.items() if role == "designer") == 6
    assert {len(found) for (_, role, _), found in groups.items() if role == "agent"} == {6}
    for role in ("agent", "designer"):
        assert any(any(found) for (_, who, _), found in groups.items() if who == role)


def test_a_batch_holds_the_plays_of_the_agents_trajectories(tmp_path: Path) -> None:
    collector = Collector()
    with small_run(tmp_path / "run", small_recipe(tmp_path)) as run:
        object.__setattr__(run, "trainer", collector)
        selfplay(run)
    assert len(collector.batches) == 5
    for batch in collector.batches:
        agent = [item for item in batch.trajectories if item.role == "agent"]
        assert [(item.key, item.reward) for item in agent] == [(play.key, play.total) for play in batch.plays]
        assert all(play.turns and play.arm == "plain" and play.status == "ok" for play in batch.plays)
