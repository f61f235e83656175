from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from spade_trainers.grpo.logprobs import Head, Sampled, chunk_of, fused_loss, score

TOKENS, WIDTH, VOCABULARY = 11, 6, 9


def case(*, bias: bool = True, chunk: int = 4, dtype: torch.dtype = torch.float64):
    generator = torch.Generator().manual_seed(3)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()

    sampled = Sampled(
        draw(TOKENS, WIDTH),
        torch.randint(VOCABULARY, (TOKENS,), generator=generator),
        torch.rand(TOKENS, generator=generator, dtype=torch.float64).to(dtype) + 0.5,
    )
    return sampled, Head(draw(VOCABULARY, WIDTH), draw(VOCABULARY) if bias else None, chunk)


def whole(sampled: Sampled, head: Head) -> tuple[torch.Tensor, torch.Tensor]:
    """The same from all logits at once, by plain torch."""
    logits = torch.nn.functional.linear(sampled.hidden, head.weight, head.bias) / sampled.temperatures[:, None]
    everything = logits.log_softmax(-1)
    return everything.gather(1, sampled.targets[:, None])[:, 0], -(everything.exp() * everything).sum(-1)


def curved(rows: slice, logprobs: torch.Tensor, entropy: torch.Tensor) -> torch.Tensor:
    """A loss that depends on the row, on both numbers, and on neither in a straight line."""
    factors = torch.arange(1, TOKENS + 1, dtype=logprobs.dtype)[rows]
    return (factors * (logprobs.exp() - entropy.square())).sum()


def straight(rows: slice, logprobs: torch.Tensor, entropy: torch.Tensor) -> torch.Tensor:
    return (torch.arange(1, TOKENS + 1, dtype=logprobs.dtype)[rows] * logprobs).sum()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("chunk", [1, 4, 11, 100])
def test_scores_are_those_of_all_logits_at_once(bias, chunk):
    sampled, head = case(bias=bias, chunk=chunk)
    found = score(sampled, head)
    expected = whole(sampled, head)
    assert torch.allclose(found.logprobs, expected[0], atol=1e-12)
    assert torch.allclose(found.entropy, expected[1], atol=1e-12)
    assert not found.logprobs.requires_grad


@pytest.mark.parametrize("objective", [curved, straight])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("chunk", [1, 4, 100])
def test_gradients_are_those_of_plain_torch(objective, bias, chunk):
    sampled, head = case(bias=bias, chunk=chunk)
    leaves = [item for item in (sampled.hidden, head.weight, head.bias) if item is not None]
    total, found = fused_loss(sampled, head, objective)
    mine = torch.autograd.grad(2 * total, leaves)
    logprobs, entropy = whole(sampled, head)
    expected = objective(slice(0, TOKENS), logprobs, entropy)
    assert total.item() == pytest.approx(expected.item())
    assert torch.allclose(found.logprobs, logprobs)
    for one, other in zip(mine, torch.autograd.grad(2 * expected, leaves), strict=True):
        assert torch.allclose(one, other, atol=1e-12)


@pytest.mark.parametrize("objective", [curved, straight])
def test_gradients_are_those_of_finite_differences(objective):
    sampled, head = case(chunk=3)

    def total(hidden, weight, bias):
        return fused_loss(sampled._replace(hidden=hidden), Head(weight, bias, 3), objective)[0]

    assert torch.autograd.gradcheck(total, (sampled.hidden, head.weight, head.bias), eps=1e-6, atol=1e-7)


def test_a_frozen_head_gets_no_gradient():
    sampled, head = case(bias=False)
    total, _ = fused_loss(sampled, head._replace(weight=head.weight.detach()), straight)
    total.backward()
    assert head.weight.grad is None
    assert sampled.hidden.grad.abs().sum() > 0


def test_half_precision_hidden_states_are_scored_in_single_precision():
    sampled, head = case(dtype=torch.bfloat16)
    total, found = fused_loss(sampled, head, straight)
    total.backward()
    assert (found.logprobs.dtype, sampled.hidden.grad.dtype, head.weight.grad.dtype) == (
        torch.float32, torch.bfloat16, torch.bfloat16,
    )  # fmt: skip
    double = Sampled(sampled.hidden.double(), sampled.targets, sampled.temperatures.double())
    expected = whole(double, Head(head.weight.double(), head.bias.double(), 4))[0]
    assert torch.allclose(found.logprobs.double(), expected, atol=0.1)


class Largest(TorchDispatchMode):
    """Remembers the largest tensor that any operation returned."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for item in result if isinstance(result, tuple | list) else (result,):
            if isinstance(item, torch.Tensor):
                self.numbers = max(self.numbers, item.numel())
        return result


def test_no_tensor_is_as_large_as_the_logits_of_the_batch():
    tokens, width, vocabulary, chunk = 64, 4, 500, 8
    hidden = torch.randn(tokens, width, requires_grad=True)
    weight = torch.randn(vocabulary, width, requires_grad=True)
    sampled = Sampled(hidden, torch.zeros(tokens, dtype=torch.long), torch.ones(tokens))
    with Largest() as seen:
        total, _ = fused_loss(sampled, Head(weight, None, chunk), lambda rows, logprobs, entropy: logprobs.sum())
        total.backward()
        score(sampled, Head(weight, None, chunk))
    assert seen.numbers == chunk * vocabulary


def test_how_many_tokens_a_chunk_has():
    assert chunk_of(12, 1024, "cpu") == 1024
    assert chunk_of(0, 49_152, "cpu") == 113
    assert chunk_of(1, 10**9, "cpu") == 1
