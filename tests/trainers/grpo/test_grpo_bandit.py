"""Does it learn? Four prompts, each with one right answer out of sixteen words."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from grpo_policies import VOCABULARY, batch, engine, sampled, tiny, trajectory

from spade_gym.selfplay.advantages import group_advantages
from spade_trainers.grpo.trainer import make

PROMPTS = [[2, 9], [3, 9], [4, 9], [5, 9]]
PLAYS = 16


def right(prompt: list[int], answer: int) -> float:
    return float(answer == (3 * prompt[0]) % VOCABULARY)


def learn(*, seed: int, sign: float, updates: int = 40) -> tuple[float, float]:
    """Return the share of right answers before the first and after the last update."""
    player = engine(tiny(seed=seed, initializer_range=0.05))
    trainer = make(player, {"learning_rate": 0.01, "aggregation": "token", "weight_decay": 0.0})
    shares = []
    for number in range(updates + 1):
        played = sampled(player, [prompt for prompt in PROMPTS for _ in range(PLAYS)], seed=1000 * seed + number)
        rewards = [right(PROMPTS[n // PLAYS], held.ids[-1]) for n, held in enumerate(played)]
        shares.append(sum(rewards) / len(rewards))
        found = []
        for group in range(len(PROMPTS)):
            mine = range(group * PLAYS, (group + 1) * PLAYS)
            advantages = group_advantages([rewards[n] for n in mine])
            found += [
                trajectory(str(n), played[n], sign * advantage, group=str(group), reward=rewards[n])
                for n, advantage in zip(mine, advantages, strict=True)
            ]
        if number < updates:
            trainer.update(batch(*found, rollout=number))
    return shares[0], shares[-1]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_bandit_is_learnt(seed):
    before, after = learn(seed=seed, sign=1.0)
    assert before <= 0.3
    assert after >= 0.95


def test_with_the_advantages_sign_flipped_it_is_not():
    before, after = learn(seed=0, sign=-1.0)
    assert after <= before
