from __future__ import annotations

import pytest

from spade_gym.models.sample import Sample
from spade_gym.selfplay.trainer import Trajectory
from spade_trainers.grpo.aggregation import num_sampled, token_coefficients


def item(key: str, *lengths: int, group: str = "g", role: str = "agent") -> Trajectory:
    samples = tuple(
        Sample((1,) * (n + 2), (0, 0) + (1,) * n, (0.0,) * (n + 2), (0.0,) * (n + 2), (0,)) for n in lengths
    )
    return Trajectory(key, role, group, 0.0, 1.0, samples, 0)  # type: ignore[arg-type]


# Sampled tokens: 2, 4 (in two samples) in group g; 1 in group h; 3 by the designer in its own group of that name.
ITEMS = [item("a", 2), item("b", 1, 3), item("c", 1, group="h"), item("d", 3, group="h", role="designer")]


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [
        ("token", [1 / 10] * 4),
        ("sequence", [1 / 8, 1 / 16, 1 / 4, 1 / 12]),
        ("fixed", [1 / 400] * 4),
        # Group g is half of the batch and has six tokens.
        ("group", [2 / 4 / 6, 2 / 4 / 6, 1 / 4 / 1, 1 / 4 / 3]),
    ],
)
def test_coefficients_by_hand(aggregation, expected):
    assert token_coefficients(ITEMS, aggregation, fixed_length=100) == pytest.approx(expected)


@pytest.mark.parametrize("aggregation", ["token", "sequence", "group"])
def test_a_loss_of_one_everywhere_is_one(aggregation):
    found = token_coefficients(ITEMS, aggregation)
    assert sum(value * num_sampled(one) for value, one in zip(found, ITEMS, strict=True)) == pytest.approx(1)


def test_nothing_has_no_coefficients_and_what_has_no_token_is_refused():
    assert token_coefficients([], "token") == ()
    with pytest.raises(ValueError, match="'empty' has no sampled token"):
        token_coefficients([*ITEMS, item("empty")], "token")
