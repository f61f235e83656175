"""PPO in a single file, in the manner of CleanRL, on a curriculum of CartPoles. Only the lines marked with * are new.

pip install spade-gym torch
python examples/curriculum_cleanrl_ppo.py --steps 20000
"""

from __future__ import annotations

import argparse

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

from spade_gym.curriculum import preset  # *
from spade_gym.curriculum.curriculum_vector_env import CurriculumVectorEnv  # *
from spade_gym.curriculum.generators import Parameters  # *

NUM_ENVS, NUM_STEPS, EPOCHS, MINIBATCH = 8, 128, 4, 256
GAMMA, TRACE, CLIP, ENTROPY, STEP = 0.99, 0.95, 0.2, 0.01, 1e-3


class Agent(nn.Module):
    """A policy and a value, apart."""

    def __init__(self, envs: gym.vector.VectorEnv) -> None:
        super().__init__()
        inputs, actions = int(np.prod(envs.single_observation_space.shape)), int(envs.single_action_space.n)
        self.actor, self.critic = perceptron(inputs, actions), perceptron(inputs, 1)


def perceptron(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default=preset.DEFAULT)
    parser.add_argument("--steps", type=int, default=20_000)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)

    family = Parameters({"gravity": (4.0, 40.0), "force_mag": (3.0, 15.0)}, kind="attribute")  # *
    curriculum = preset.make(args.preset, generator=family, return_range=(0.0, 500.0))  # *
    envs = CurriculumVectorEnv("CartPole-v1", curriculum, num_envs=NUM_ENVS, success=475.0)  # *
    agent = Agent(envs)
    optimiser = torch.optim.Adam(agent.parameters(), lr=STEP, eps=1e-5)

    shape = (NUM_STEPS, NUM_ENVS)
    observations = torch.zeros((*shape, *envs.single_observation_space.shape))
    actions, logs, rewards, dones, values = (torch.zeros(shape) for _ in range(5))
    masks = torch.zeros(shape, dtype=torch.bool)
    following, infos = envs.reset(seed=0)
    following, done = torch.as_tensor(following, dtype=torch.float32), torch.zeros(NUM_ENVS)
    for update in range(args.steps // (NUM_STEPS * NUM_ENVS)):
        for step in range(NUM_STEPS):
            observations[step], dones[step] = following, done
            with torch.no_grad():
                policy = Categorical(logits=agent.actor(following))
                action = policy.sample()
                values[step] = agent.critic(following).flatten()
            actions[step], logs[step] = action, policy.log_prob(action)
            # * Learn only from plays that are meant for it; and, as always with next-step autoreset, from no reset.
            masks[step] = torch.as_tensor(infos["train"]) & (done == 0)
            following, reward, terminated, truncated, infos = envs.step(action.numpy())
            rewards[step] = torch.as_tensor(reward, dtype=torch.float32)
            following = torch.as_tensor(following, dtype=torch.float32)
            done = torch.as_tensor(terminated | truncated, dtype=torch.float32)

        with torch.no_grad():
            advantages, running, after = torch.zeros(shape), torch.zeros(NUM_ENVS), agent.critic(following).flatten()
            for step in reversed(range(NUM_STEPS)):
                goes_on = 1.0 - (done if step == NUM_STEPS - 1 else dones[step + 1])
                surprise = rewards[step] + GAMMA * after * goes_on - values[step]
                advantages[step] = running = surprise + GAMMA * TRACE * goes_on * running
                after = values[step]
            targets = advantages + values
        batch = [column[masks] for column in (observations, actions, logs, advantages, targets)]
        for _ in range(EPOCHS):
            for chosen in torch.randperm(len(batch[0])).split(MINIBATCH):
                seen, taken, old, gain, target = (column[chosen] for column in batch)
                policy = Categorical(logits=agent.actor(seen))
                ratio = (policy.log_prob(taken) - old).exp()
                gain = (gain - gain.mean()) / (gain.std(correction=0) + 1e-8)
                surrogate = torch.min(ratio * gain, ratio.clamp(1 - CLIP, 1 + CLIP) * gain).mean()
                error = (agent.critic(seen).flatten() - target).square().mean()
                loss = -surrogate + 0.25 * error - ENTROPY * policy.entropy().mean()
                optimiser.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimiser.step()
        if update % 5 == 4:
            told = np.concatenate([record.log.outcomes().returns[-4:] for record in curriculum.memory])
            print(f"update {update + 1}: {len(curriculum.memory)} tasks, mean of their last returns {told.mean():.0f}")
    envs.close()
    print(f"{args.preset}: outcomes {dict(curriculum.receipts)}")


if __name__ == "__main__":
    main()
