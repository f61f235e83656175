from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from torch.nn.functional import scaled_dot_product_attention

from spade_trainers.grpo.attention import Packing, _attend
from spade_trainers.grpo.prefixes import tree_of

HEADS, KEYS, WIDTH = 4, 2, 8

#: Sequences that begin alike: for longer and for shorter than what follows, in two stages, and not at all.
CASES = {
    "short beginning": [(1, 2, 3, 4, 5, 6, 7, 8, 9), (1, 2, 3, 9, 8, 7, 6, 5)],
    "long beginning": [(1, 2, 3, 4, 5, 6, 7), (1, 2, 3, 4, 5, 6, 9, 8)],
    "two stages": [(1, 2, 3, 4, 5, 6), (1, 2, 3, 4, 8, 9, 9, 9, 9, 9), (1, 2, 7, 7, 7), (5, 5)],
    "as long as what follows": [(1, 2, 3, 4), (1, 2, 5, 6)],
}


@pytest.mark.parametrize("name", CASES)
def test_each_sequence_attends_as_it_does_alone(name):
    """Outputs and gradients, for a random row laid out as a tree."""
    tree = tree_of(CASES[name], 2)
    assert any(segment.above for segment in tree.segments)
    generator = torch.Generator().manual_seed(0)

    def draw(heads: int) -> torch.Tensor:
        shape = (1, heads, tree.num_tokens, WIDTH)
        return torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()

    row = (draw(HEADS), draw(KEYS), draw(KEYS))
    weights = torch.randn(tree.num_tokens, HEADS * WIDTH, generator=generator, dtype=torch.float64)
    found, _ = _attend(None, *row, None, packing=Packing(tree.segments))
    mine = (found.flatten(2)[0] * weights).sum()

    starts = [sum(len(other.ids) for other in tree.segments[:number]) for number in range(len(tree.segments))]
    total, seen = torch.zeros((), dtype=torch.float64), set()
    for path in tree.paths:
        columns = [starts[number] + place for number in path for place in range(len(tree.segments[number].ids))]
        alone = scaled_dot_product_attention(*(part[:, :, columns] for part in row), is_causal=True, enable_gqa=True)
        for place, column in enumerate(columns):
            assert torch.allclose(found[0, column], alone[0, :, place], atol=1e-12)
            if column not in seen:  # what is shared counts once
                seen.add(column)
                total = total + (alone[0, :, place].flatten() * weights[column]).sum()
    assert mine.item() == pytest.approx(total.item())
    for one, other in zip(torch.autograd.grad(mine, row), torch.autograd.grad(total, row), strict=True):
        assert torch.allclose(one, other, atol=1e-12)
