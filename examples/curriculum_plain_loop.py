"""A curriculum in a plain loop, without any wrapper: ask, play, tell. Frozen lakes of many sizes, learned by a table.

pip install spade-gym
python examples/curriculum_plain_loop.py --preset plr --episodes 5000
"""

from __future__ import annotations

import argparse
from collections import defaultdict

import gymnasium as gym
import numpy as np
from gymnasium.envs.toy_text.frozen_lake import generate_random_map

from spade_gym.curriculum import preset
from spade_gym.curriculum.generators import Parameters
from spade_gym.curriculum.task import Outcome, Task

SIZES, MAPS = (3, 6), (0, 19)


def make_env(task: Task) -> gym.Env:
    lake = generate_random_map(size=task.value["size"], seed=task.value["map"])
    return gym.make("FrozenLake-v1", desc=lake, is_slippery=False, max_episode_steps=100)


def play(env: gym.Env, table: np.ndarray, seed: int, rng: np.random.Generator, explore: float) -> tuple[float, int]:
    """Play one episode with Q-learning (only greedily, and without learning, for ``explore`` = 0)."""
    state, _ = env.reset(seed=seed)
    total, steps, over = 0.0, 0, False
    while not over:
        best = np.flatnonzero(table[state] == table[state].max())
        action = int(rng.integers(4)) if rng.random() < explore else int(rng.choice(best))
        following, reward, terminated, truncated, _ = env.step(action)
        if explore:
            target = reward + 0.95 * table[following].max() * (not terminated)
            table[state, action] += 0.5 * (target - table[state, action])
        state, total, steps, over = following, total + float(reward), steps + 1, terminated or truncated
    return total, steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default=preset.DEFAULT, choices=[n for n in preset.names() if n != "rlve-window"])
    parser.add_argument("--episodes", type=int, default=5000)
    args = parser.parse_args()

    rng = np.random.default_rng(0)
    tables: dict[str, np.ndarray] = defaultdict(lambda: np.zeros((SIZES[1] ** 2, 4)))

    # These are the five lines: a curriculum, a ticket, its task, its seeds, and what came of them.
    curriculum = preset.make(args.preset, generator=Parameters({"size": SIZES, "map": MAPS}, kind="make"), seed=0)
    episodes = 0
    while episodes < args.episodes:
        ticket = curriculum.ask()
        env = make_env(ticket.task)
        for seed in ticket.seeds:
            explore = 0.2 if ticket.train else 0.0
            total, steps = play(env, tables[ticket.task.id], seed, rng, explore)
            curriculum.tell(Outcome(ticket.id, seed, total, won=total > 0, length=steps))
            episodes += 1

    sizes, maps = range(SIZES[0], SIZES[1] + 1), range(MAPS[0], MAPS[1] + 1)
    lakes = [Task("make", {"size": size, "map": number}) for size in sizes for number in maps]
    solved = sum(play(make_env(lake), tables[lake.id], 0, rng, 0.0)[0] > 0 for lake in lakes)
    print(f"{args.preset}: {solved} of {len(lakes)} lakes are crossed after {episodes} episodes")
    print("most worth playing now:", ", ".join(str(dict(record.task.value)) for record, _ in curriculum.ranked()[:3]))


if __name__ == "__main__":
    main()
