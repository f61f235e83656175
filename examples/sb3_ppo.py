"""PPO of Stable-Baselines3 learns a program: the parts that ``spade-gym train sb3`` puts together.

pip install "spade-gym[sb3]"
python examples/sb3_ppo.py --env spade/SignalBox-v0 --steps 40000
"""

from __future__ import annotations

import argparse

import gymnasium as gym
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecMonitor

import spade_gym
from spade_gym.envs.wrappers import HashedText, Menu, menu_of
from spade_gym.evaluation.unseen_seeds import unseen_seeds
from spade_trainers.sb3.evaluate import evaluate
from spade_trainers.sb3.vec_env import ProgramVecEnv


def open_batch(env_id: str, num_envs: int, menu: Menu, *, turn_limit_is_loss: bool = False) -> ProgramVecEnv:
    envs = gym.make_vec(env_id, num_envs=num_envs, autoreset_mode="SameStep")
    return ProgramVecEnv(envs, menu, HashedText(512), turn_limit_is_loss=turn_limit_is_loss)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default="spade/SignalBox-v0")
    parser.add_argument("--steps", type=int, default=40_000)
    args = parser.parse_args()
    torch.set_num_threads(1)  # the network is small; more threads only wait for each other

    single = gym.make(args.env)
    menu = menu_of(single)
    single.close()
    print(f"spade_gym {spade_gym.__version__}: {args.env} with the commands {', '.join(menu.commands)}")

    # The number of turns belongs to the task: an unfinished play is a loss, not a play of which we saw a part.
    envs = open_batch(args.env, 64, menu, turn_limit_is_loss=True)
    model = PPO("MlpPolicy", VecMonitor(envs), n_steps=32, batch_size=512, n_epochs=6, learning_rate=1e-3,
                gamma=0.98, ent_coef=0.01, policy_kwargs={"net_arch": [128, 128]}, seed=0, device="cpu")  # fmt: skip

    def wins() -> str:
        def choose(observations, masks):
            return model.predict(observations, deterministic=True)[0]

        return str(evaluate(choose, lambda num_envs: open_batch(args.env, num_envs, menu), unseen_seeds(100)).wins)

    print(f"before: {wins()}")
    envs.seed(0)
    model.learn(args.steps)
    print(f"after:  {wins()}")
    envs.close()


if __name__ == "__main__":
    main()
