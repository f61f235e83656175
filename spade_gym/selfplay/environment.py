"""A pool while it is played: its environments, and the orders for their plays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from spade_gym.curriculum.task import Arm, Task
from spade_gym.programs.program import Program
from spade_gym.rollout.play import PlayOrder

#: Streams of the run's seed, so that a draw of one kind never moves another.
_INSTANCES, _REPLIES = 10, 11


@dataclass(frozen=True, slots=True)
class Environment:
    """A program in a pool.

    Attributes:
        index: Its place in the pool.
        program: With its hint in the manifest; "" where there is none.
        skill: That it was asked for.
        request: Key of the request whose reply it came from.
        born: Number of the rollout at which it came in.
    """

    index: int
    program: Program
    skill: str
    request: str
    born: int

    @property
    def task(self) -> Task:
        """It as a task of the environment memory."""
        manifest = self.program.manifest
        return Task(
            "program", {"program": self.program.digest}, skill=self.skill, hint=manifest.hint, setting=manifest.setting
        )


def with_hint(program: Program, hint: str) -> Program:
    """The program with a hint in its manifest."""
    return Program(program.source, replace(program.manifest, hint=hint))


def instance_seeds(seed: int, rollout: int, index: int, count: int) -> list[int]:
    """Seeds of the instances that an environment is played on in a rollout; both arms take them from the beginning.

    Args:
        seed: The run's.
        rollout: Number of the rollout.
        index: The environment's place in the pool.
        count: How many; a longer list begins with the shorter one.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_INSTANCES, rollout, index)))
    return [int(number) for number in rng.integers(1 << 31, size=count)]


def play_orders(
    environments: Sequence[Environment], *, seed: int, rollout: int, arm: Arm, count: int
) -> list[PlayOrder]:
    """The plays of a rollout in one arm, environment by environment."""
    return [
        PlayOrder(
            f"play/{rollout}/{environment.index}/{arm}/{number}",
            environment.program,
            instance,
            arm,
            _sampling_seed(seed, rollout, environment.index, arm, number),
        )
        for environment in environments
        for number, instance in enumerate(instance_seeds(seed, rollout, environment.index, count))
    ]


def environment_of(key: str) -> int:
    """The place in its pool of the environment that a play's or a design request's key names.

    Args:
        key: ``play/<rollout>/<environment>/<arm>/<n>`` or ``design/<epoch>/<environment>/<attempt>``.
    """
    return int(key.split("/")[2])


def _sampling_seed(seed: int, rollout: int, index: int, arm: Arm, number: int) -> int:
    key = (_REPLIES, rollout, index, int(arm == "hint"), number)
    return int(np.random.SeedSequence(seed, spawn_key=key).generate_state(1)[0]) >> 1
