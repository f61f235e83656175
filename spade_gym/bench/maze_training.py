"""Train the small agent on mazes that a curriculum hands out, and see what it can on mazes that it never met.

The budget is steps in mazes, those of plays that are only for scoring included: a method that screens or re-plays
without learning pays for it. An update is made whenever 2,048 steps of plays to be trained on have come together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spade_gym.bench.maze import NUM_ACTIONS, NUM_INPUTS, Maze, Mazes, Player
from spade_gym.bench.maze_agent import Agent, Batch, advantages_of
from spade_gym.curriculum import preset
from spade_gym.curriculum.curriculum import Curriculum
from spade_gym.curriculum.task import Outcome, Ticket

NUM_PLACES, ROLLOUT, BATCH = 32, 32, 2048
TRIES = 8


class Skill(NamedTuple):
    """What an agent can on held-out mazes.

    Attributes:
        mean: Share of plays won.
        worst_tenth: The same of the tenth of mazes that it wins least often.
        trained_share: Share of the budget that it learned from.
    """

    mean: float
    worst_tenth: float
    trained_share: float


def train(name: str, *, num_steps: int, seed: int, tests: Sequence[Maze]) -> Skill:
    """Train under a preset and test.

    Args:
        name: Of the preset.
        num_steps: Budget of steps in mazes.
        seed: Of the agent, the curriculum and the test plays.
        tests: Mazes to be tested on.
    """
    agent_rng, test_rng = np.random.default_rng([seed, 1]).spawn(2)
    agent = Agent(NUM_INPUTS, NUM_ACTIONS, agent_rng)
    curriculum = preset.make(name, generator=Mazes(), seed=seed)
    trained = _Training(agent, curriculum).run(num_steps)
    wins = test(agent, tests, test_rng)
    worst = np.sort(wins)[: max(1, len(wins) // 10)]
    return Skill(float(wins.mean()), float(worst.mean()), trained / num_steps)


class _Training:
    def __init__(self, agent: Agent, curriculum: Curriculum) -> None:
        self._agent = agent
        self._curriculum = curriculum
        self._player = Player(NUM_PLACES)
        self._tickets: list[Ticket] = []
        self._parts: list[Batch] = []
        for place in range(NUM_PLACES):
            self._tickets.append(curriculum.ask())
            self._player.start(place, Maze.of(self._tickets[place].task))

    def run(self, num_steps: int) -> int:
        """Play until the budget is spent; return how many steps were learned from."""
        trained = waiting = 0
        for _ in range(num_steps // (NUM_PLACES * ROLLOUT)):
            part = self._rollout()
            self._parts.append(part)
            waiting += len(part.actions)
            if waiting >= BATCH:
                self._agent.learn(Batch(*(np.concatenate(columns) for columns in zip(*self._parts, strict=True))))
                trained += waiting
                self._parts, waiting = [], 0
        return trained

    def _rollout(self) -> Batch:
        shape = (ROLLOUT, NUM_PLACES)
        inputs = np.empty((*shape, NUM_INPUTS), dtype=np.float32)
        actions = np.empty(shape, dtype=np.int64)
        logs, values, rewards = (np.empty(shape, dtype=np.float32) for _ in range(3))
        ends, counts = (np.empty(shape, dtype=np.bool_) for _ in range(2))
        for t in range(ROLLOUT):
            inputs[t] = self._player.observe()
            actions[t], logs[t], values[t] = self._agent.act(inputs[t])
            counts[t] = [ticket.train for ticket in self._tickets]
            rewards[t], ends[t] = self._player.step(actions[t])
            for place in np.flatnonzero(ends[t]):
                self._end(int(place), float(rewards[t, place]))
        last = self._agent.act(self._player.observe())[2]
        advantages = advantages_of(rewards, values, ends, last, self._agent.settings)
        return Batch(inputs, actions, logs, advantages, advantages + values).select(counts)

    def _end(self, place: int, total: float) -> None:
        ticket, steps = self._tickets[place], int(self._player.steps[place])
        self._curriculum.tell(Outcome(ticket.id, ticket.seeds[0], total, total > 0, steps))
        self._tickets[place] = self._curriculum.ask()
        self._player.start(place, Maze.of(self._tickets[place].task))


def test(agent: Agent, mazes: Sequence[Maze], rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Play each maze 8 times with actions drawn from the policy; return the share won of each."""
    player = Player(len(mazes) * TRIES)
    for place in range(len(mazes) * TRIES):
        player.start(place, mazes[place // TRIES])
    won = np.zeros(len(mazes) * TRIES, dtype=np.bool_)
    over = np.zeros_like(won)
    tester = agent.with_chance(rng)
    while not over.all():
        rewards, ends = player.step(tester.act(player.observe())[0])
        won |= (rewards > 0) & ~over
        over |= ends
    shares: npt.NDArray[np.float64] = won.reshape(-1, TRIES).mean(1)
    return shares
