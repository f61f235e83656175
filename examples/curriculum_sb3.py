"""Stable-Baselines3 PPO in four processes, on a curriculum of CartPoles; killed and started again, it goes on.

pip install "spade-gym[sb3]"
python examples/curriculum_sb3.py --steps 16000 --run runs/cartpoles
spade-gym curriculum plot runs/cartpoles          # needs spade-gym[plot]
"""

from __future__ import annotations

import argparse
import functools
import tempfile

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import SubprocVecEnv

from spade_gym.curriculum import preset
from spade_gym.curriculum.curriculum_env import CurriculumEnv
from spade_gym.curriculum.durable import DurableCurriculum
from spade_gym.curriculum.generators import Parameters
from spade_gym.curriculum.service import CurriculumServer
from spade_gym.curriculum.store import Store
from spade_trainers.sb3.curriculum_callback import CurriculumCallback


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default=preset.DEFAULT)
    parser.add_argument("--steps", type=int, default=16_000)
    parser.add_argument("--run", help="folder of the run (default: a temporary one)")
    args = parser.parse_args()
    torch.set_num_threads(1)

    with tempfile.TemporaryDirectory() as temporary:
        folder = args.run or temporary
        family = Parameters({"gravity": (4.0, 40.0), "force_mag": (3.0, 15.0)}, kind="attribute")
        curriculum = preset.make(args.preset, generator=family, seed=0, return_range=(0.0, 500.0))
        with DurableCurriculum(curriculum, Store(folder)) as kept, CurriculumServer(kept) as server:
            make = functools.partial(CurriculumEnv, "CartPole-v1", server.address, success=475.0)
            envs = make_vec_env(make, n_envs=4, vec_env_cls=SubprocVecEnv)
            model = PPO("MlpPolicy", envs, n_steps=256, batch_size=256, gamma=0.98, seed=0, device="cpu")
            model.learn(args.steps, callback=CurriculumCallback(server, save_freq=0, save_path=folder))
            envs.close()
        counts = dict(curriculum.receipts)
        print(f"{args.preset}: {args.steps} steps, outcomes {counts}, {len(curriculum.memory)} tasks in the memory")
        for record, score in curriculum.ranked()[:5]:
            returns = record.log.outcomes().returns
            value = "unknown" if score is None else f"{score:.0f}"
            values = {name: round(number, 1) for name, number in record.task.value.items()}
            print(f"  {values}: {len(returns)} plays, mean return {returns.mean():.0f}, score {value}")


if __name__ == "__main__":
    main()
