"""What plays of the cycle are to a policy: observations as it saw them, commands by their numbers, rewards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spade_gym.rollout.play import Play
from spade_trainers.sb3.policy_model import PolicyModel


class Steps(NamedTuple):
    """Steps of plays, one play behind the other.

    Attributes:
        observations: Before each step; shape (number of steps, length of an observation).
        following: After each step; zeros after the last one of a play.
        actions: Numbers of commands.
        rewards: What each step was worth.
        starts: Whether a play begins with the step.
        ends: Whether a play ends with it.
    """

    observations: npt.NDArray[np.float32]
    following: npt.NDArray[np.float32]
    actions: npt.NDArray[np.int64]
    rewards: npt.NDArray[np.float32]
    starts: npt.NDArray[np.bool_]
    ends: npt.NDArray[np.bool_]


def steps_of(plays: Iterable[Play], model: PolicyModel) -> Steps | None:
    """Return the steps of plays; ``None`` when there are none.

    The end of a play is the end of its task, also at its turn limit: the limit is part of the task.

    Args:
        plays: That the model played.
        model: Whose eyes to see with.

    Raises:
        ValueError: A reply is no command of its menu: another model played.
    """
    observations, following = [], []
    actions: list[int] = []
    rewards: list[float] = []
    starts: list[bool] = []
    ends: list[bool] = []
    for play in plays:
        if not play.turns:
            continue
        seen = model.encoded([turn.observation for turn in play.turns])
        observations.append(seen)
        following.append(np.concatenate([seen[1:], np.zeros_like(seen[:1])]))
        actions += [_place_of(turn.completion, play.key, model) for turn in play.turns]
        rewards += rewards_of(play)
        starts += [place == 0 for place in range(len(play.turns))]
        ends += [place == len(play.turns) - 1 for place in range(len(play.turns))]
    if not observations:
        return None
    return Steps(
        np.concatenate(observations), np.concatenate(following), np.array(actions, dtype=np.int64),
        np.array(rewards, dtype=np.float32), np.array(starts), np.array(ends),
    )  # fmt: skip


def rewards_of(play: Play) -> Sequence[float]:
    """Return what each step of a play was worth, in sum the play's return.

    These are the program's own rewards where they add up to the return; otherwise (only the last one counts, or the
    sum was clipped) the return is paid at the end.
    """
    own = [turn.reward for turn in play.turns]
    return own if abs(sum(own) - play.total) < 1e-6 else [*(0.0 for _ in own[1:]), play.total]


def _place_of(reply: str, key: str, model: PolicyModel) -> int:
    place = model.place_of(reply)
    if place is None:
        raise ValueError(f"{key}: the reply {reply[:100]!r} is no command of the menu: another model played this")
    return place
