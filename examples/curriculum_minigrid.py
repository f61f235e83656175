"""A public family: MiniGrid crossings of many sizes, by tasks that are arguments of the environment.

pip install "spade-gym[sb3]" minigrid
python examples/curriculum_minigrid.py --steps 12000
"""

from __future__ import annotations

import argparse
import importlib.util
import sys

import gymnasium as gym
from gymnasium.wrappers import FlattenObservation

from spade_gym.curriculum import preset
from spade_gym.curriculum.curriculum_env import CurriculumEnv
from spade_gym.curriculum.generators import Parameters
from spade_gym.curriculum.task import Task


def crossing(size: int = 5, num_crossings: int = 1) -> gym.Env:
    from minigrid.core.world_object import Wall
    from minigrid.envs import CrossingEnv
    from minigrid.wrappers import ImgObsWrapper

    env = CrossingEnv(size=size, num_crossings=num_crossings, obstacle_type=Wall, max_steps=100)
    return FlattenObservation(ImgObsWrapper(env))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default=preset.DEFAULT)
    parser.add_argument("--steps", type=int, default=12_000)
    args = parser.parse_args()
    missing = [name for name in ("minigrid", "stable_baselines3") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"skipped: needs {', '.join(missing)}: pip install 'spade-gym[sb3]' minigrid")
        sys.exit(0)
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    torch.set_num_threads(1)

    family = Parameters({"size": [5, 7, 9], "num_crossings": (1, 3)}, kind="make")
    curriculum = preset.make(args.preset, generator=family, seed=0)
    envs = make_vec_env(lambda: CurriculumEnv(crossing, curriculum, success=0.01), n_envs=8)
    PPO("MlpPolicy", envs, n_steps=128, batch_size=256, ent_coef=0.01, seed=0, device="cpu").learn(args.steps)
    envs.close()
    print(f"{args.preset}: outcomes {dict(curriculum.receipts)}")
    for record, _ in curriculum.ranked():
        wins = record.log.outcomes().wins
        print(f"  {dict(record.task.value)}: {len(wins)} plays kept, won {wins.mean():.0%}")

    # For an evaluation give the tasks themselves: nothing is told, and a seed fixes everything.
    test = CurriculumEnv(crossing, [Task("make", {"size": 9, "num_crossings": 2})], evaluation=True)
    print("evaluation starts with", test.reset(seed=0)[1]["task_id"])
    test.close()


if __name__ == "__main__":
    main()
