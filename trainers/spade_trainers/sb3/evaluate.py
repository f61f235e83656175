"""How often does a player win on given instances?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from spade_trainers.report import WinRate
from spade_trainers.sb3.vec_env import ProgramVecEnv

Choose = Callable[[npt.NDArray[np.float32], npt.NDArray[np.bool_]], npt.NDArray[np.int64]]


class _Play(NamedTuple):
    """How one play ended: the sum of its rewards, whether it was won, and the fault, "" for none."""

    total: float
    won: bool
    fault: str


class Evaluation(NamedTuple):
    """Wins of a player, and the first fault of the program as an example ("" if there was none)."""

    wins: WinRate
    fault: str


def evaluate(
    choose: Choose, open_envs: Callable[[int], ProgramVecEnv], seeds: Sequence[int], *, batch: int = 128
) -> Evaluation:
    """Play each seed once and count the wins.

    Args:
        choose: Maps observations (num_envs, length) and masks (num_envs, num_commands) to actions (num_envs,).
        open_envs: Opens that many environments.
        seeds: Seeds of the instances.
        batch: Plays at once, at most.
    """
    plays: list[_Play] = []
    for start in range(0, len(seeds), batch):
        chosen = seeds[start : start + batch]
        envs = open_envs(len(chosen))
        try:
            plays += _first_plays(choose, envs, chosen)
        finally:
            envs.close()
    faults = [play.fault for play in plays if play.fault]
    fair = [play for play in plays if not play.fault]
    mean = float(np.mean([play.total for play in fair])) if fair else None
    wins = WinRate(sum(play.won for play in fair), len(fair), len(faults), mean)
    return Evaluation(wins, faults[0] if faults else "")


def _first_plays(choose: Choose, envs: ProgramVecEnv, seeds: Sequence[int]) -> list[_Play]:
    """Play until every environment has ended its first episode; what follows in the others does not count."""
    envs.use_seeds(seeds)
    observations: Any = envs.reset()
    totals = np.zeros(len(seeds))
    plays: list[_Play | None] = [None] * len(seeds)
    while any(play is None for play in plays):
        observations, rewards, dones, infos = envs.step(choose(observations, envs.action_masks()))
        totals += rewards
        for index in np.flatnonzero(dones):
            if plays[index] is None:
                info = infos[index]
                fault = str(info.get("fault", "")) if info["env_error"] else ""
                total = float(np.clip(totals[index], -1.0, 1.0))
                plays[index] = _Play(total, bool(info.get("is_success", False)), fault)
    return [play for play in plays if play is not None]


def uniform(rng: np.random.Generator) -> Choose:
    """Return a player that chooses uniformly among the available commands."""

    def choose(observations: npt.NDArray[np.float32], masks: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        return np.asarray(np.where(masks, rng.random(masks.shape), -1.0).argmax(axis=1), dtype=np.int64)

    return choose
