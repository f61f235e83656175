"""Does a trainer keep the promises of ``spade_gym.selfplay.trainer.Trainer``?"""

from __future__ import annotations

import dataclasses
import math
import tempfile
from collections.abc import Callable
from pathlib import Path

from spade_gym.models.sample import Sample
from spade_gym.rollout.play import Play
from spade_gym.selfplay.trainer import PolicyRole, Trainer, Trajectory, UpdateBatch


def check_trainer(make: Callable[[], Trainer], *, sample: Sample | None = None, play: Play | None = None) -> None:
    """Check a trainer: metrics, empty groups, and that a saved one goes on exactly.

    Args:
        make: Makes a trainer, the same each time.
        sample: Token ids that its model could have sampled; three ids of a tiny vocabulary by default.
        play: One that its model could have played, for trainers that learn from ``UpdateBatch.plays``.

    Raises:
        AssertionError: A promise is broken; the message says which.
    """
    shown = sample or Sample((1, 2, 3), (0, 1, 1), (0.0, -0.5, -0.25), (0.0, -0.5, -0.25), (0,))
    first, second = _batch(0, shown, ("agent", "designer"), play), _batch(1, shown, ("agent",), play)
    trainer = make()
    _check_metrics(trainer.update(first))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trainer.save(folder)
        assert any(folder.iterdir()), "save must write what load needs into the folder that it is given"
        expected = _check_metrics(trainer.update(second))
        again = make()
        again.load(folder)
        found = _check_metrics(again.update(second))
    assert found == expected, f"after load, update must do exactly what it would have done: {expected} became {found}"
    _check_metrics(make().update(_batch(0, shown, ("designer",), None)))


def _batch(rollout: int, sample: Sample, roles: tuple[PolicyRole, ...], play: Play | None) -> UpdateBatch:
    trajectories = tuple(
        Trajectory(f"{role}/{rollout}/{number}", role, f"{role}/{rollout}", reward, advantage, (sample,), rollout)
        for role in roles
        for number, (reward, advantage) in enumerate([(1.0, 1.0), (0.0, -1.0)])
    )
    if play is None:
        return UpdateBatch(rollout, trajectories)
    agent = [item for item in trajectories if item.role == "agent"]
    plays = (dataclasses.replace(play, key=item.key, total=item.reward, samples=item.samples) for item in agent)
    return UpdateBatch(rollout, trajectories, tuple(plays))


def _check_metrics(metrics: object) -> dict[str, float]:
    assert hasattr(metrics, "items"), f"update must return metrics by name, got {metrics!r}"
    found = dict(metrics.items())
    for name, value in found.items():
        assert isinstance(name, str), f"names of metrics must be texts, got {name!r}"
        assert isinstance(value, int | float), f"the metric {name} must be a number, got {value!r}"
        assert math.isfinite(value), f"the metric {name} must be finite, got {value!r}"
    return {name: float(value) for name, value in found.items() if "second" not in name}
