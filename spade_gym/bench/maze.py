"""Mazes of 7 × 7 cells, for the benchmark of curricula: what they are, how they are drawn, changed and played.

A maze is a set of walls, a start and a goal. The player sees the 5 × 5 cells around it (walls, and how often it was
there) and the direction and distance of the goal, and moves in one of four directions; a wall stops it. It wins at the
goal: the return is then 1 − 0.9 · steps / 50, and 0 when the goal is not reached in 50 steps.

The training family has 0 to 24 walls at random, so some mazes are open fields and some cannot be solved, as in the
mazes of Dennis et al. 2020 (arXiv:2012.02096), which are larger. Held out for the evaluation: random solvable mazes
with a way of at least 8 steps, and *labyrinths* (spanning trees, one way between any two places), which the training
family practically never holds.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from spade_gym.curriculum.task import Task

SIZE, MAX_STEPS, MAX_WALLS = 7, 50, 24
_VIEW = 2
_PADDED = SIZE + 2 * _VIEW
_MOVES = np.array([-_PADDED, 1, _PADDED, -1])
_AROUND = (np.arange(-_VIEW, _VIEW + 1)[:, None] * _PADDED + np.arange(-_VIEW, _VIEW + 1)[None, :]).ravel()
NUM_ACTIONS, NUM_INPUTS = 4, 2 * len(_AROUND) + 4
_LEAST_WAY = 8

Floats = npt.NDArray[np.float32]


class Maze(NamedTuple):
    """A maze.

    Attributes:
        walls: (49,) whether there is a wall.
        start: Cell of the start, 7 · row + column.
        goal: Cell of the goal.
    """

    walls: npt.NDArray[np.bool_]
    start: int
    goal: int

    def task(self, *, parent: str = "", mutation: str = "") -> Task:
        """The maze as a task."""
        value = {"walls": "".join("#" if wall else "." for wall in self.walls), "start": self.start, "goal": self.goal}
        return Task("reset", value, parent=parent, mutation=mutation)

    @classmethod
    def of(cls, task: Task) -> Maze:
        """Read what ``task`` gave."""
        return cls(np.array([cell == "#" for cell in task.value["walls"]]), task.value["start"], task.value["goal"])


def random_maze(rng: np.random.Generator) -> Maze:
    """Draw a maze with 0 to 24 walls; it need not be solvable."""
    cells = rng.permutation(SIZE * SIZE)
    walls = np.zeros(SIZE * SIZE, dtype=np.bool_)
    walls[cells[2 : 2 + int(rng.integers(MAX_WALLS + 1))]] = True
    return Maze(walls, int(cells[0]), int(cells[1]))


def labyrinth(rng: np.random.Generator) -> Maze:
    """Draw a maze with exactly one way between any two free cells; start and goal lie far apart."""
    walls = np.ones((SIZE, SIZE), dtype=np.bool_)
    stack = [(0, 0)]
    walls[0, 0] = False
    while stack:
        row, column = stack[-1]
        steps = [(-2, 0), (0, 2), (2, 0), (0, -2)]
        around = [(row + down, column + right) for down, right in steps]
        closed = [(r, c) for r, c in around if 0 <= r < SIZE and 0 <= c < SIZE and walls[r, c]]
        if not closed:
            stack.pop()
            continue
        place = closed[int(rng.integers(len(closed)))]
        walls[place] = walls[(row + place[0]) // 2, (column + place[1]) // 2] = False
        stack.append(place)
    flat = walls.ravel()
    free = np.flatnonzero(~flat)
    while True:
        start, goal = (int(cell) for cell in rng.choice(free, 2, replace=False))
        way = way_length(Maze(flat, start, goal))
        if way is not None and way >= _LEAST_WAY:
            return Maze(flat, start, goal)


def way_length(maze: Maze) -> int | None:
    """Steps of the shortest way, or ``None`` when there is none."""
    seen = {maze.start: 0}
    queue = deque([maze.start])
    while queue:
        cell = queue.popleft()
        if cell == maze.goal:
            return seen[cell]
        row, column = divmod(cell, SIZE)
        for r, c in ((row - 1, column), (row, column + 1), (row + 1, column), (row, column - 1)):
            other = SIZE * r + c
            if 0 <= r < SIZE and 0 <= c < SIZE and not maze.walls[other] and other not in seen:
                seen[other] = seen[cell] + 1
                queue.append(other)
    return None


def held_out(num_each: int, *, seed: int = 20260901) -> list[Maze]:
    """Return solvable random mazes with a way of at least 8 steps, and as many labyrinths; always the same ones."""
    rng = np.random.default_rng(seed)
    mazes: list[Maze] = []
    while len(mazes) < num_each:
        maze = random_maze(rng)
        if (way_length(maze) or 0) >= _LEAST_WAY:
            mazes.append(maze)
    return mazes + [labyrinth(rng) for _ in range(num_each)]


class Mazes:
    """The training family, as a generator of a curriculum.

    A mutation toggles one to three cells or moves the goal (edits as of Parker-Holder et al. 2022).
    """

    def generate(self, rng: np.random.Generator) -> Task | None:
        """Draw a maze."""
        return random_maze(rng).task()

    def mutate(self, task: Task, rng: np.random.Generator) -> Task | None:
        """Change a maze a little."""
        maze = Maze.of(task)
        free = [cell for cell in range(SIZE * SIZE) if cell not in (maze.start, maze.goal)]
        if rng.random() < 0.25:
            goals = [cell for cell in free if not maze.walls[cell]]
            goal = goals[int(rng.integers(len(goals)))] if goals else maze.goal
            return Maze(maze.walls, maze.start, goal).task(parent=task.id, mutation=f"goal to {goal}")
        cells = rng.choice(free, int(rng.integers(1, 4)), replace=False)
        walls = maze.walls.copy()
        walls[cells] = ~walls[cells]
        toggled = ", ".join(str(cell) for cell in cells)
        return Maze(walls, maze.start, maze.goal).task(parent=task.id, mutation=f"toggled {toggled}")


class Player:
    """Plays several mazes at once, one in each place.

    Args:
        num_places: How many.
    """

    def __init__(self, num_places: int) -> None:
        self._walls = np.ones((num_places, _PADDED * _PADDED), dtype=np.float32)
        self._visits = np.zeros((num_places, _PADDED * _PADDED), dtype=np.float32)
        self._cells = np.zeros(num_places, dtype=np.int64)
        self._goals = np.zeros(num_places, dtype=np.int64)
        self._places = np.arange(num_places)
        self.steps = np.zeros(num_places, dtype=np.int64)

    def start(self, place: int, maze: Maze) -> None:
        """Begin a maze in a place."""
        padded = np.ones((_PADDED, _PADDED), dtype=np.float32)
        padded[_VIEW:-_VIEW, _VIEW:-_VIEW] = maze.walls.reshape(SIZE, SIZE)
        self._walls[place] = padded.ravel()
        self._visits[place] = 0.0
        self._cells[place], self._goals[place] = _padded(maze.start), _padded(maze.goal)
        self._visits[place, self._cells[place]] = 1.0
        self.steps[place] = 0

    def observe(self) -> Floats:
        """What is seen in each place, (num_places, 54)."""
        near = self._cells[:, None] + _AROUND[None, :]
        rows = self._places[:, None]
        inputs = np.empty((len(self._cells), NUM_INPUTS), dtype=np.float32)
        inputs[:, :25] = self._walls[rows, near]
        inputs[:, 25:50] = np.minimum(self._visits[rows, near], 3.0) / 3.0
        down = self._goals // _PADDED - self._cells // _PADDED
        right = self._goals % _PADDED - self._cells % _PADDED
        inputs[:, 50], inputs[:, 51] = down / SIZE, right / SIZE
        inputs[:, 52], inputs[:, 53] = np.sign(down), np.sign(right)
        return inputs

    def step(self, actions: npt.NDArray[np.int64]) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """Move in each place; return the rewards and which episodes ended, both (num_places,)."""
        there = self._cells + _MOVES[actions]
        self._cells = np.where(self._walls[self._places, there] > 0, self._cells, there)
        self._visits[self._places, self._cells] += 1.0
        self.steps += 1
        won = self._cells == self._goals
        rewards = np.where(won, 1.0 - 0.9 * self.steps / MAX_STEPS, 0.0).astype(np.float32)
        return rewards, won | (self.steps >= MAX_STEPS)


def _padded(cell: int) -> int:
    row, column = divmod(cell, SIZE)
    return (row + _VIEW) * _PADDED + column + _VIEW


def settings() -> dict[str, Any]:
    """The constants, for the record."""
    return {"size": SIZE, "max_steps": MAX_STEPS, "max_walls": MAX_WALLS, "least_way_held_out": _LEAST_WAY}
