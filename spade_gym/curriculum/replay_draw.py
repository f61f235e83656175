"""Which record is replayed now: drawn from the sampler's probabilities, which are renewed only now and then."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from spade_gym.curriculum.memory import Memory, Scorer
from spade_gym.curriculum.samplers import Sampler

_ATTEMPTS = 20
_RENEWALS_PER_SIZE = 50


class Draw:
    """Draws records, with probabilities that are renewed when about 2 % of the records changed.

    Attributes:
        probability: Of the record that was drawn last.
    """

    __slots__ = ("_cumulative", "_slots", "_version", "probability")

    def __init__(self) -> None:
        self._cumulative: npt.NDArray[np.float64] | None = None
        self._slots: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._version = -1
        self.probability = 0.0

    def task_id(
        self, memory: Memory, scorer: Scorer, sampler: Sampler, *, now: int, rng: np.random.Generator
    ) -> str | None:
        """Return the id of the task that is drawn; ``None`` when the memory keeps losing what is drawn.

        Args:
            memory: At least one record.
            scorer: Brings the scores up to date before probabilities are renewed.
            sampler: Gives the probabilities.
            now: Number of the present ask.
            rng: Source of chance.
        """
        if self._cumulative is None or memory.version - self._version >= max(1, len(memory) // _RENEWALS_PER_SIZE):
            self._renew(memory, scorer, sampler, now)
        for _ in range(_ATTEMPTS):
            assert self._cumulative is not None
            place = min(int(self._cumulative.searchsorted(rng.random(), side="right")), len(self._slots) - 1)
            before = float(self._cumulative[place - 1]) if place else 0.0
            self.probability = float(self._cumulative[place]) - before
            task_id = memory.task_id(int(self._slots[place]))
            if task_id is not None:
                return task_id
            self._renew(memory, scorer, sampler, now)
        return None

    def _renew(self, memory: Memory, scorer: Scorer, sampler: Sampler, now: int) -> None:
        memory.rescore(scorer)
        probabilities = sampler.probabilities(memory, now=now)
        self._cumulative = np.cumsum(probabilities / probabilities.sum())
        self._slots = memory.slots()
        self._version = memory.version

    def state_dict(self) -> dict[str, Any]:
        """The probabilities, as JSON values."""
        return {
            "cumulative": None if self._cumulative is None else self._cumulative.tolist(),
            "slots": self._slots.tolist(), "version": self._version, "probability": self.probability,
        }  # fmt: skip

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Read what ``state_dict`` gave."""
        self._cumulative = None if state["cumulative"] is None else np.array(state["cumulative"])
        self._slots, self._version = np.array(state["slots"], dtype=np.int64), state["version"]
        self.probability = state["probability"]
