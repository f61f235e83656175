from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch

from spade_trainers.grpo.optimiser import Optimiser
from spade_trainers.grpo.settings import GrpoSettings


def parameters(dtype: torch.dtype = torch.float32) -> dict[str, torch.nn.Parameter]:
    return {
        "matrix": torch.nn.Parameter(torch.full((2, 2), 4.0, dtype=dtype)),
        "vector": torch.nn.Parameter(torch.full((2,), 4.0, dtype=dtype)),
        "frozen": torch.nn.Parameter(torch.ones(2, 2, dtype=dtype), requires_grad=False),
    }


def push(held: dict[str, torch.nn.Parameter]) -> None:
    (held["matrix"].sum() * 3 + held["vector"].sum() * 4).backward()


def test_a_first_step_by_hand():
    # Adam's first step is the rate times the gradient's sign; matrices also decay by rate · decay · weight.
    held = parameters()
    optimiser = Optimiser(held.items(), GrpoSettings(learning_rate=0.1, weight_decay=0.5))
    push(held)
    assert optimiser.clip() == pytest.approx((4 * 9 + 2 * 16) ** 0.5)
    optimiser.step()
    assert held["matrix"].tolist() == [pytest.approx([4 * (1 - 0.05) - 0.1] * 2)] * 2
    assert held["vector"].tolist() == pytest.approx([4 - 0.1] * 2)
    assert held["frozen"].tolist() == [[1, 1], [1, 1]]
    assert held["matrix"].grad is None


def test_gradients_are_scaled_down_to_the_largest_norm():
    held = parameters()
    optimiser = Optimiser(held.items(), GrpoSettings(max_grad_norm=0.5))
    push(held)
    optimiser.clip()
    assert optimiser.clip() == pytest.approx(0.5, rel=1e-4)


def test_steps_too_small_for_bfloat16_add_up_in_the_masters():
    held = parameters(torch.bfloat16)
    optimiser = Optimiser(held.items(), GrpoSettings(learning_rate=1e-3, weight_decay=0.0))
    seen = []
    for _ in range(40):
        push(held)
        optimiser.clip()
        optimiser.step()
        seen.append(held["vector"][0].item())
    assert seen[0] == 4.0  # 0.001 is lost beside 4.0 …
    assert seen[-1] == pytest.approx(3.96, abs=0.01)  # … but forty of them are not
    assert optimiser.masters["vector"][0].item() == pytest.approx(3.96, abs=1e-3)


def test_gradients_of_half_precision_weights_are_summed_in_single_precision():
    held = parameters(torch.bfloat16)
    optimiser = Optimiser(held.items(), GrpoSettings())
    for factor in (256.0, *[0.5] * 8):  # in bfloat16, 256 + .5 is 256
        (held["vector"].sum() * factor).backward()
    assert optimiser.masters["vector"].grad.tolist() == [260.0, 260.0]
    assert held["vector"].grad is None


def test_gradients_that_are_not_finite_are_named():
    held = parameters()
    optimiser = Optimiser(held.items(), GrpoSettings())
    push(held)
    held["vector"].grad[0] = float("nan")
    assert optimiser.not_finite() == ["vector"]
    optimiser.clear()
    assert optimiser.not_finite() == []


def test_a_state_of_other_weights_is_refused():
    held = parameters()
    optimiser = Optimiser(held.items(), GrpoSettings())
    push(held)
    optimiser.step()
    state = optimiser.state()
    with pytest.raises(ValueError, match=r"holds 'step\.other', which is no weight trained here"):
        optimiser.load_state({**state, "step.other": torch.ones(())})
    with pytest.raises(ValueError, match="'vector' is not whole"):
        optimiser.load_state({name: value for name, value in state.items() if name != "exp_avg.vector"})
