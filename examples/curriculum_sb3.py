"""Stable-Baselines3 PPO in four processes, on a curriculum of CartPoles; killed and started again, both go on.

pip install "spade-gym[sb3]"
python examples/curriculum_sb3.py --steps 16000 --run runs/cartpoles
python examples/curriculum_sb3.py --steps 32000 --run runs/cartpoles    # the same agent and curriculum, 16000 more

The curriculum keeps every outcome in the run's folder. The agent is saved there before every rollout, so a kill costs
it what it learnt since then: at most 1024 steps.
spade-gym curriculum plot runs/cartpoles          # needs spade-gym[plot]
"""

from __future__ import annotations

import argparse
import functools
import os
import tempfile
from pathlib import Path

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import SubprocVecEnv, VecEnv

from spade_gym.curriculum import preset
from spade_gym.curriculum.curriculum_env import CurriculumEnv
from spade_gym.curriculum.durable import DurableCurriculum
from spade_gym.curriculum.generators import Parameters
from spade_gym.curriculum.service import CurriculumServer
from spade_gym.curriculum.store import Store
from spade_trainers.sb3.curriculum_callback import CurriculumCallback


class SaveModel(BaseCallback):
    """Saves the model before every rollout and at the end, whole or not at all."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def _on_rollout_start(self) -> None:
        written = self.path.with_name("writing.zip")
        self.model.save(written)
        os.replace(written, self.path)

    _on_training_end = _on_rollout_start

    def _on_step(self) -> bool:
        return True


def make_model(saved: Path, envs: VecEnv) -> PPO:
    if saved.exists():
        model = PPO.load(saved, env=envs, device="cpu")
        print(f"goes on after {model.num_timesteps} steps")
        return model
    return PPO("MlpPolicy", envs, n_steps=256, batch_size=256, gamma=0.98, seed=0, device="cpu")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default=preset.DEFAULT)
    parser.add_argument("--steps", type=int, default=16_000, help="of the whole run")
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
            saved = Path(folder) / "model.zip"
            model = make_model(saved, envs)
            callbacks = [CurriculumCallback(server, save_freq=0, save_path=folder), SaveModel(saved)]
            left = max(0, args.steps - model.num_timesteps)
            model.learn(left, callback=callbacks, reset_num_timesteps=False)
            envs.close()
        counts, num_tasks = dict(curriculum.receipts), len(curriculum.memory)
        print(f"{args.preset}: {model.num_timesteps} steps, outcomes {counts}, {num_tasks} tasks in the memory")
        for record, score in curriculum.ranked()[:5]:
            returns = record.log.outcomes().returns
            value = "unknown" if score is None else f"{score:.0f}"
            values = {name: round(number, 1) for name, number in record.task.value.items()}
            print(f"  {values}: {len(returns)} plays, mean return {returns.mean():.0f}, score {value}")


if __name__ == "__main__":
    main()
