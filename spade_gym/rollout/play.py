"""What is to be played, and the record of a play: everything that a trainer or a reader could ask of it."""

from __future__ import annotations

from dataclasses import dataclass

from spade_gym.curriculum.task import Arm
from spade_gym.models.sample import Sample
from spade_gym.programs.program import Program
from spade_gym.types import Status


@dataclass(frozen=True, slots=True)
class PlayOrder:
    """One play to be done.

    Attributes:
        key: Names the play in a run, the same when the run is repeated: ``play/<rollout>/<environment>/<arm>/<n>``.
            What follows the last ``/`` is the repetition, by which plays of both arms are paired (``pairs.py``).
        program: What to play; its manifest holds the hint.
        seed: Of the instance.
        arm: ``plain`` or ``hint``.
        sampling_seed: Seeds the model's draws; turn t uses its t-th child.
    """

    key: str
    program: Program
    seed: int
    arm: Arm = "plain"
    sampling_seed: int = 0


@dataclass(frozen=True, slots=True)
class Turn:
    """One exchange of a play.

    Attributes:
        observation: What the player saw (of the first turn: with the gameplay prompt and, in that arm, the hint).
        completion: What the model wrote, think block included.
        action: What the environment was given; ``None`` when the reply was cut off and so not played.
        reward: Of the step; 0.0 without one.
    """

    observation: str
    completion: str
    action: str | None
    reward: float


@dataclass(frozen=True, slots=True)
class Play:
    """A finished play.

    Attributes:
        key: The order's.
        digest: The program's.
        seed: The instance's.
        arm: The order's.
        total: Return, in [-1, 1]; 0.0 unless ``status`` is ``ok``.
        won: Whether it was won (method, section 6).
        length: Steps taken.
        status: ``ok``, or ``aborted`` (the model failed), ``env_error``, ``timeout``: then it counts for nothing.
        fault: What failed, or "".
        ended: ``terminated`` or ``truncated`` by the environment, ``turns``, ``tokens`` or ``context`` (budgets of
            the player), ``cut`` (a reply cut off), or ``fault``.
        turns: What was said.
        samples: Token ids for training; empty where the engine does not tell them.
        policy_version: The oldest version that sampled a part of it.
        prompt_tokens: Tokens read, summed over turns.
        completion_tokens: Tokens sampled.
        seconds: From the reset to the end.
        last_observation: What the environment showed last, to which no reply was made; "" where there is none.
    """

    key: str
    digest: str
    seed: int
    arm: Arm
    total: float
    won: bool
    length: int
    status: Status
    fault: str
    ended: str
    turns: tuple[Turn, ...]
    samples: tuple[Sample, ...]
    policy_version: int
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    last_observation: str = ""
