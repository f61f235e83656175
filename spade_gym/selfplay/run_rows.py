"""How what happened is written into the tables of a run."""

from __future__ import annotations

from collections.abc import Mapping

from spade_gym.curriculum.score import Score, Unknown
from spade_gym.curriculum.views import Summary
from spade_gym.selfplay.environment import Environment
from spade_gym.selfplay.window import Worth


def row_of_pool(epoch: int, environment: Environment) -> Mapping[str, object]:
    """A row of the table ``pools``."""
    return {
        "epoch": epoch, "environment": environment.index, "digest": environment.program.digest,
        "skill": environment.skill, "born": environment.born, "request": environment.request,
    }  # fmt: skip


def row_of_memory(epoch: int, position: int, item: Summary) -> Mapping[str, object]:
    """A row of the table ``memory``."""
    return {
        "epoch": epoch, "position": position, "task": item.task.id, "digest": item.task.value["program"],
        "skill": item.task.skill, "num_plays": item.num_plays, "win_rate": item.wins.share if item.wins else None,
        "regret": item.regret.value if item.regret else None,
    }  # fmt: skip


def row_of_worth(epoch: int, worth: Worth, advantage: float | None) -> Mapping[str, object]:
    """A row of the table ``scores``."""
    regret = worth.regret if isinstance(worth.regret, Score) else None
    reward = worth.reward if isinstance(worth.reward, Score) else None
    environment, wins = worth.environment, worth.wins
    return {
        "epoch": epoch, "environment": environment.index, "digest": environment.program.digest,
        "skill": environment.skill, "num_plain": int((~worth.outcomes.hinted).sum()),
        "num_hinted": int(worth.outcomes.hinted.sum()), "num_dropped": worth.num_dropped,
        "win_rate": wins.share if wins else None, "win_low": wins.low if wins else None,
        "win_high": wins.high if wins else None, "mean_return": wins.mean_return if wins else None,
        "constant_return": wins.constant_return if wins else None, "regret": regret.value if regret else None,
        "regret_error": regret.standard_error if regret else None, "num_pairs": regret.n if regret else 0,
        "reward": reward.value if reward else None,
        "reason": worth.reward.reason if isinstance(worth.reward, Unknown) else "", "advantage": advantage,
    }  # fmt: skip
