from __future__ import annotations

import numpy as np
import pytest

from spade_gym.bench.maze import MAX_STEPS, Maze, Mazes, Player, held_out, labyrinth, random_maze, way_length
from spade_gym.bench.maze_agent import Agent, Batch, Settings, advantages_of
from spade_gym.bench.maze_training import test as play_tests
from spade_gym.bench.maze_training import train

UP, RIGHT, DOWN, LEFT = range(4)


def maze(rows: str) -> Maze:
    text = rows.replace("\n", "").replace(" ", "")
    return Maze(np.array([cell == "#" for cell in text]), text.index("s"), text.index("g"))


CORRIDOR = maze("""
    s.g####
    #######
    #######
    #######
    #######
    #######
    #######
""")


def test_the_shortest_way() -> None:
    assert way_length(CORRIDOR) == 2
    assert way_length(Maze(CORRIDOR.walls, 0, 48)) is None


def test_moves_walls_views_and_returns() -> None:
    player = Player(2)
    player.start(0, CORRIDOR)
    player.start(1, CORRIDOR)
    inputs = player.observe()
    assert inputs.shape == (2, 54)
    assert inputs[0, :25].reshape(5, 5)[2].tolist() == [1, 1, 0, 0, 0]  # beyond the edge are walls
    assert inputs[0, 25:50].sum() == pytest.approx(1 / 3)  # once here
    assert inputs[0, 50:].tolist() == pytest.approx([0, 2 / 7, 0, 1])
    rewards, ends = player.step(np.array([RIGHT, DOWN]))
    assert rewards.tolist() == [0, 0]
    assert not ends.any()
    rewards, ends = player.step(np.array([RIGHT, DOWN]))
    assert rewards[0] == pytest.approx(1 - 0.9 * 2 / 50)
    assert ends.tolist() == [True, False]
    for _ in range(MAX_STEPS - 2):
        rewards, ends = player.step(np.array([LEFT, UP]))
    assert rewards[1] == 0
    assert ends[1]


def test_tasks_and_mutations() -> None:
    rng = np.random.default_rng(0)
    task = random_maze(rng).task()
    again = Maze.of(task).task()
    assert again.id == task.id
    for _ in range(50):
        child = Mazes().mutate(task, rng)
        assert child is not None
        assert child.parent == task.id
        found, before = Maze.of(child), Maze.of(task)
        changed = int((found.walls != before.walls).sum())
        assert 1 <= changed <= 3 or (changed == 0 and found.goal != before.goal)
        assert not found.walls[found.start]
        assert not found.walls[found.goal]
        task = child


def test_what_is_held_out_is_solvable_and_fixed() -> None:
    mazes = held_out(5)
    assert len(mazes) == 10
    assert all((way_length(one) or 0) >= 8 for one in mazes)
    assert [one.task().id for one in mazes] == [one.task().id for one in held_out(5)]
    tree = labyrinth(np.random.default_rng(1))
    free = np.flatnonzero(~tree.walls)
    ways = [(a, b) for a in free for b in free if a < b and (b - a == 7 or (b - a == 1 and b % 7))]
    assert len(ways) == len(free) - 1


def test_advantages_by_hand() -> None:
    settings = Settings(discount=0.5, trace=0.5)
    column = np.array([[1.0], [0.0], [2.0]], dtype=np.float32)
    values = np.array([[0.5], [1.0], [1.0]], dtype=np.float32)
    ends = np.array([[False], [True], [False]])
    found = advantages_of(column, values, ends, np.array([4.0], dtype=np.float32), settings)
    # last: 2 + 0.5 · 4 − 1 = 3; second ends: 0 − 1; first: 1 + 0.5 · 1 − 0.5 + 0.25 · (−1)
    assert found[:, 0].tolist() == [0.75, -1.0, 3.0]


def test_the_gradient_is_that_of_the_loss() -> None:
    rng = np.random.default_rng(0)
    settings = Settings(hidden=5, step=1e-6, clip=0.2, gradient_norm=1e9)
    agent = Agent(3, 4, rng, settings)
    for name, value in agent._parameters.items():
        agent._parameters[name] = (value + 0.3 * rng.standard_normal(value.shape)).astype(np.float64)  # type: ignore[assignment]
    inputs = rng.standard_normal((20, 3))
    actions = rng.integers(4, size=20)
    logs = agent._forward(inputs)[2][np.arange(20), actions] + 0.3 * rng.standard_normal(20)
    batch = Batch(inputs, actions, logs, rng.standard_normal(20), rng.standard_normal(20))
    kept = {}
    agent._step = lambda gradients: kept.update(gradients)  # type: ignore[method-assign]
    agent._descend(batch)

    def loss() -> float:
        _, _, now, values = agent._forward(batch.inputs)
        gains = (batch.advantages - batch.advantages.mean()) / (batch.advantages.std() + 1e-8)
        ratios = np.exp(now[np.arange(20), actions] - batch.log_probs)
        surrogate = np.minimum(ratios * gains, ratios.clip(0.8, 1.2) * gains).mean()
        entropy = -(np.exp(now) * now).sum(1).mean()
        return float(-surrogate - 0.01 * entropy + 0.25 * ((values - batch.targets) ** 2).mean())

    for name, value in agent._parameters.items():
        place = (0,) * value.ndim
        before = value[place]
        value[place] = before + 1e-5
        above = loss()
        value[place] = before - 1e-5
        below = loss()
        value[place] = before
        assert kept[name][place] == pytest.approx((above - below) / 2e-5, abs=1e-5), name


def test_training_is_deterministic_and_learns() -> None:
    tests = held_out(5)
    untrained = play_tests(Agent(54, 4, np.random.default_rng(0)), tests, np.random.default_rng(0)).mean()
    first = train("plr", num_steps=60_000, seed=1, tests=tests)
    assert first.mean > untrained + 0.05
    assert first.trained_share > 0.9
    assert train("robust-plr", num_steps=10_000, seed=1, tests=tests) == train(
        "robust-plr", num_steps=10_000, seed=1, tests=tests
    )
