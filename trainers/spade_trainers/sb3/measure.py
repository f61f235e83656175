"""The wins of a run's players, all on the same unseen instances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spade_gym.errors import SpadeError
from spade_gym.evaluation.unseen_seeds import unseen_seeds
from spade_trainers.report import WinRate
from spade_trainers.sb3.agent import Agent, AgentSettings
from spade_trainers.sb3.evaluate import evaluate, uniform
from spade_trainers.sb3.vec_env import ProgramVecEnv


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """Counts wins on unseen seeds.

    Attributes:
        settings: What a player sees and does.
        env_kwargs: Arguments of ``gymnasium.make_vec``.
        num_plays: Number of unseen instances, each played once.
        greedy: Whether an agent takes its best action rather than draw one.
    """

    settings: AgentSettings
    env_kwargs: dict[str, Any]
    num_plays: int
    greedy: bool = True

    def random(self, seed: int) -> WinRate:
        """Return the wins of a player that chooses uniformly.

        Raises:
            SpadeError: The program fails in every play.
        """
        wins, fault = evaluate(uniform(np.random.default_rng(seed)), self._open, unseen_seeds(self.num_plays))
        if wins.plays == 0:
            raise SpadeError(
                f"{self.settings.env_id} fails in every play, so nothing can be learned from it; "
                f"the first fault: {fault}"
            )
        return wins

    def agent(self, agent: Agent) -> WinRate:
        """Return the wins of an agent."""

        def choose(observations: Any, masks: Any) -> Any:
            return agent.choose(observations, masks, greedy=self.greedy)

        return evaluate(choose, self._open, unseen_seeds(self.num_plays)).wins

    def _open(self, num_envs: int) -> ProgramVecEnv:
        return self.settings.environments(num_envs, env_kwargs=self.env_kwargs)
