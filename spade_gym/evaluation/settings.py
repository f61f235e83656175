"""What an evaluation is told."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any

from spade_gym.sandbox.base import Isolation
from spade_gym.selfplay.recipe import AgentSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationSettings:
    """Settings of an evaluation; two with the same ones are one, and are gone on with.

    Attributes:
        k: Samples of each task.
        tasks: Instances of each program (16), questions of each data set of Reasoning Gym (16), or at most so many
            questions of a file or of a category of BFCL (all); absent: what stands in brackets.
        seed: Chooses instances, data sets' seeds and the order of choices, and seeds the model's draws.
        checkpoint: Which checkpoint of a self-play run counts: ``last``, or the number of a rollout. Absent: ``last``.
        agent: How the model samples and plays, as in recipes; ``turn_tokens`` is the budget of a reply.
        model_options: Settings of the model's engine (``docs/models.md``).
        base_options: Those of the base's engine.
        suite_options: Settings of data sets of Reasoning Gym, by their names.
        isolation: Level of programs and graders; "" for the default.
        max_in_flight: Most requests or plays under way.
    """

    k: int = 32
    tasks: int | None = None
    seed: int = 0
    checkpoint: str | None = None
    agent: AgentSettings = field(default_factory=AgentSettings)
    model_options: dict[str, Any] = field(default_factory=dict)
    base_options: dict[str, Any] = field(default_factory=dict)
    suite_options: dict[str, Any] = field(default_factory=dict)
    isolation: str = ""
    max_in_flight: int = 256

    def __post_init__(self) -> None:
        """Refuse what cannot be evaluated.

        Raises:
            ValueError: With the name, the value and what is allowed.
        """
        for name, least in (("k", 1), ("tasks", 1), ("seed", 0), ("max_in_flight", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name} must be at least {least}, got {value!r}")
        if self.checkpoint is not None and self.checkpoint != "last" and not self.checkpoint.isdecimal():
            raise ValueError(f"checkpoint must be 'last' or the number of a rollout, got {self.checkpoint!r}")
        Isolation.parse(self.isolation or None)

    def to_json(self) -> dict[str, Any]:
        """The settings as JSON values."""
        return json.loads(json.dumps(dataclasses.asdict(self)))  # type: ignore[no-any-return]


def pass_ks(k: int) -> tuple[int, ...]:
    """Return the numbers for which pass@ is reported: powers of two from 2 on, and k."""
    powers = [2**power for power in range(1, k.bit_length()) if 2**power < k]
    return (*powers, k)
