from __future__ import annotations

import math

import pytest

pytest.importorskip("torch")

import torch

from spade_trainers.grpo.loss import Tokens, k3_divergence, token_loss
from spade_trainers.grpo.settings import GrpoSettings


def column(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def logs(*values: float) -> torch.Tensor:
    return column(*values).log()


def loss_of(probability, *, advantage, behaviour, proximal, reference=None, **settings):
    """Loss of one token and its derivative by log π_θ, from probabilities."""
    logprob = logs(probability).requires_grad_()
    tokens = Tokens(
        column(1.0),
        column(advantage),
        logs(behaviour),
        None if proximal is None else logs(proximal),
        None if reference is None else logs(reference),
    )
    found = token_loss(logprob, column(0.5), tokens, GrpoSettings(**settings))
    (slope,) = torch.autograd.grad(found.loss.sum(), logprob)
    return found, found.loss.item(), slope.item()


def test_inside_the_clip_the_ratio_counts():
    # ρ = .22 / .2 = 1.1, w = .2 / .16 = 1.25, loss = −1.25 · 1.1 · 2, and its derivative by log π is the same.
    found, loss, slope = loss_of(0.22, advantage=2.0, behaviour=0.16, proximal=0.2)
    assert (found.ratio.item(), found.weight.item()) == pytest.approx((1.1, 1.25))
    assert (loss, slope) == pytest.approx((-2.75, -2.75))
    assert not found.clipped.item()


@pytest.mark.parametrize(
    ("probability", "advantage", "loss", "slope"),
    [
        (0.3, 1.0, -1.28, 0.0),  # ρ = 1.5 and better than average: no further
        (0.3, -1.0, 1.5, 1.5),  # ρ = 1.5 and worse: all the way back
        (0.1, 1.0, -0.5, -0.5),  # ρ = .5 and better: all the way back
        (0.1, -1.0, 0.8, 0.0),  # ρ = .5 and worse: no further
    ],
)
def test_the_clip_is_low_and_high(probability, advantage, loss, slope):
    found, *numbers = loss_of(probability, advantage=advantage, behaviour=0.2, proximal=0.2)
    assert numbers == pytest.approx([loss, slope])
    assert found.clipped.item() == (slope == 0)


def test_the_behaviour_weight_is_capped_and_stands_outside_the_clip():
    # w = min(.4 / .1, 2): 2 · 1.28, and no gradient where the clip holds.
    found, loss, slope = loss_of(0.6, advantage=1.0, behaviour=0.1, proximal=0.4)
    assert found.weight.item() == 2.0
    assert (loss, slope) == pytest.approx((-2.56, 0.0))
    # Under half as likely as when it was sampled: w = .25, not clipped away (π_θ / π_behaviour in the clip would be).
    assert loss_of(0.1, advantage=-1.0, behaviour=0.4, proximal=0.1)[1:] == pytest.approx((0.25, 0.25))
    assert loss_of(0.1, advantage=1.0, behaviour=0.4, proximal=0.1, weight_cap=0.0)[1:] == pytest.approx((-1, -1))


def test_in_the_first_step_the_ratio_is_one_and_the_gradient_is_the_weighted_advantage():
    found, loss, slope = loss_of(0.3, advantage=-1.5, behaviour=0.24, proximal=None)
    assert found.ratio.item() == 1.0
    assert (loss, slope) == pytest.approx((1.875, 1.875))


def test_k3_by_hand():
    # π_ref / π_θ = 2: 2 − log 2 − 1, derivative by log π: 1 − 2.
    _, loss, slope = loss_of(0.2, advantage=0.0, behaviour=0.2, proximal=0.2, reference=0.4, kl=0.1)
    assert (loss, slope) == pytest.approx((0.1 * (1 - math.log(2)), -0.1))


def test_k3_averages_to_the_divergence_and_never_overflows():
    policy, reference = logs(0.5, 0.3, 0.2), logs(0.2, 0.2, 0.6)
    mean = (policy.exp() * k3_divergence(policy, reference)).sum()
    assert mean.item() == pytest.approx((policy.exp() * (policy - reference)).sum().item())
    assert k3_divergence(column(-500.0), column(-0.1)).isfinite().all()


def test_entropy_is_a_bonus():
    entropy = column(0.7).requires_grad_()
    tokens = Tokens(column(1.0), column(0.0), logs(0.2))
    token_loss(logs(0.2), entropy, tokens, GrpoSettings(entropy=0.25)).loss.sum().backward()
    assert entropy.grad.item() == -0.25


def test_the_clip_can_be_switched_off():
    assert loss_of(0.6, advantage=1.0, behaviour=0.1, proximal=0.1, clip=False)[1:] == pytest.approx((-6.0, -6.0))
