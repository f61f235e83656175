"""What a training run achieved: wins on unseen seeds, with what is known about their precision."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from spade_gym.curriculum.win_rates import wilson_interval


@dataclass(frozen=True, slots=True)
class WinRate:
    """Wins among plays; faulty plays count neither as wins nor as losses.

    Attributes:
        wins: Plays won.
        plays: Plays that ended without a fault of the program.
        faulty: Plays that the program cut off by failing.
        mean_return: Mean return of the ``plays``; ``None`` when there are none.
    """

    wins: int
    plays: int
    faulty: int = 0
    mean_return: float | None = None

    @property
    def rate(self) -> float | None:
        """Share of plays won, from 0 to 1; ``None`` when every play was faulty."""
        return self.wins / self.plays if self.plays else None

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % Wilson score interval of the rate; (0, 1) without plays.

        Source: Wilson, Probable inference, the law of succession, and statistical inference, JASA 1927.
        """
        return wilson_interval(self.wins, self.plays)

    def __str__(self) -> str:
        if self.rate is None:
            return f"unknown: all {self.faulty} plays were faulty"
        low, high = self.interval
        faulty = f", {self.faulty} faulty plays left out" if self.faulty else ""
        return f"won {self.wins} of {self.plays} ({self.rate:.2f}, 95 % interval {low:.2f} to {high:.2f}){faulty}"

    def as_json(self) -> dict[str, Any]:
        """Return the numbers as JSON values."""
        low, high = self.interval
        return {**asdict(self), "rate": self.rate, "interval": [low, high]}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainReport:
    """The result of one training run.

    Attributes:
        env_id: Gymnasium id of the environment.
        digest: Digest of its program; ``""`` for an environment that is no program.
        algorithm: For example ``ppo``.
        seed: Seed of the run.
        steps: Environment steps that were made.
        seconds: Wall-clock time of training alone.
        random: A player that chooses uniformly among the available commands.
        before: The agent before training.
        after: The agent after training.
        faulty_training_plays: Training plays that the program cut off by failing.
        model: File of the trained model.
        logs: Folder of the TensorBoard logs.
    """

    env_id: str
    digest: str
    algorithm: str
    seed: int
    steps: int
    seconds: float
    random: WinRate
    before: WinRate
    after: WinRate
    faulty_training_plays: int
    model: Path
    logs: Path

    @property
    def steps_per_second(self) -> float:
        """Environment steps per second of training."""
        return self.steps / max(self.seconds, 1e-9)

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        rates = {key: getattr(self, key).as_json() for key in ("random", "before", "after")}
        return {
            **asdict(self),
            **rates,
            "steps_per_second": self.steps_per_second,
            "model": str(self.model),
            "logs": str(self.logs),
        }
