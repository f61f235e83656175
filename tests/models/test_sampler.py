from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from spade_gym.models.base import Sampling  # noqa: E402
from spade_gym.models.sampler import draw  # noqa: E402

# Probabilities 0.5, 0.25, 0.125, 0.125 of the ids 2, 0, 3, 1.
LOGITS = torch.log(torch.tensor([[0.25, 0.125, 0.5, 0.125]]))


def sampling(**changes):
    return Sampling(**{"temperature": 1.0, "top_p": 1.0, "top_k": 0, **changes})


@pytest.mark.parametrize(
    ("number", "token"), [(0.0, 0), (0.249, 0), (0.251, 1), (0.374, 1), (0.376, 2), (0.874, 2), (0.876, 3), (1.0, 3)]
)
def test_a_number_is_compared_with_cumulated_probabilities_in_the_order_of_ids(number, token):
    drawn = draw(LOGITS, sampling(), [number])
    assert drawn.ids == [token]
    assert drawn.logprobs[0] == pytest.approx(LOGITS[0, token].item(), abs=1e-6)
    assert drawn.kept_logprobs[0] == pytest.approx(LOGITS[0, token].item(), abs=1e-6)


def test_top_k_keeps_the_most_likely_and_both_log_probabilities_are_told():
    # Ids 0 and 2 remain with 1/3 and 2/3.
    low, high = draw(LOGITS, sampling(top_k=2), [0.33]), draw(LOGITS, sampling(top_k=2), [0.34])
    assert (low.ids, high.ids) == ([0], [2])
    assert low.kept_logprobs[0] == pytest.approx(math.log(1 / 3))
    assert low.logprobs[0] == pytest.approx(math.log(0.25))
    assert high.kept_logprobs[0] == pytest.approx(math.log(2 / 3))


def test_top_p_keeps_the_first_that_reach_it_and_at_least_one():
    assert draw(LOGITS, sampling(top_p=0.75), [0.999]).kept_logprobs[0] == pytest.approx(math.log(2 / 3))
    only = draw(LOGITS, sampling(top_p=0.01), [0.999])
    assert (only.ids, only.kept_logprobs) == ([2], [0.0])


def test_top_p_comes_after_top_k_and_is_of_what_that_left():
    # After top-k 3: 4/7, 2/7, 1/7. The first two reach 0.8 of that, though only 0.75 of the whole.
    drawn = draw(LOGITS, sampling(top_k=3, top_p=0.8), [0.0])
    assert drawn.kept_logprobs[0] == pytest.approx(math.log(1 / 3))


def test_temperature_flattens_before_anything_is_dropped():
    # At temperature 2 the weights are the square roots.
    roots = LOGITS.exp().sqrt()[0]
    assert draw(LOGITS, sampling(temperature=2.0), [0.0]).logprobs[0] == pytest.approx((roots[0] / roots.sum()).log())


@pytest.mark.parametrize("temperature", [1e-30, 1e-4])
def test_the_coldest_temperature_is_greedy_rather_than_an_overflow(temperature):
    drawn = draw(LOGITS * 1e4, sampling(temperature=temperature), [0.999])
    assert (drawn.ids, drawn.usable) == ([2], [True])


def test_greedy_takes_the_most_likely_and_tells_log_probabilities_at_temperature_one():
    drawn = draw(LOGITS, sampling(temperature=0.0), [0.9])
    assert (drawn.ids, drawn.kept_logprobs) == ([2], [0.0])
    assert drawn.logprobs[0] == pytest.approx(math.log(0.5))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("changes", [{}, {"top_k": 2}, {"top_p": 0.5}, {"temperature": 0.0}])
def test_a_row_that_is_not_finite_is_not_usable_and_the_next_row_is(bad, changes):
    logits = LOGITS.repeat(2, 1)
    logits[0, 1] = bad
    drawn = draw(logits, sampling(**changes), [0.1, 0.1])
    assert drawn.usable == [False, True]
    assert drawn.ids[1] == draw(LOGITS, sampling(**changes), [0.1]).ids[0]


def test_a_row_of_nothing_but_minus_infinity_is_not_usable():
    assert draw(torch.full((1, 4), -math.inf), sampling(), [0.1]).usable == [False]


def test_impossible_tokens_are_never_drawn():
    logits = torch.tensor([[0.0, -math.inf, 0.0, -math.inf]])
    assert {draw(logits, sampling(), [number]).ids[0] for number in (0.0, 0.49, 0.5, 0.51, 1.0)} == {0, 2}


def test_top_p_over_a_flat_large_vocabulary_looks_beyond_the_first_candidates():
    logits = torch.zeros(1, 5000)
    drawn = draw(logits, sampling(top_p=0.5), [0.999999])
    assert drawn.kept_logprobs[0] == pytest.approx(-math.log(2500), abs=1e-3)


def test_frequencies_are_the_probabilities():
    numbers = [(place + 0.5) / 10_000 for place in range(10_000)]
    ids = draw(LOGITS.expand(10_000, 4), sampling(top_k=3), numbers).ids
    kept = [ids.count(token) / 10_000 for token in range(4)]
    assert kept[0] == pytest.approx(2 / 7, abs=2e-4)
    assert kept[2] == pytest.approx(4 / 7, abs=2e-4)
    assert sorted(kept)[:2] == [0.0, pytest.approx(1 / 7, abs=2e-4)]


def test_rounding_of_logits_moves_few_draws():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2000, 300, generator=generator) * 3
    shaken = logits + torch.randn(2000, 300, generator=generator) * 1e-5
    numbers = torch.rand(2000, generator=generator, dtype=torch.float64).tolist()
    chosen = sampling(temperature=0.6, top_p=0.95, top_k=20)
    pairs = zip(draw(logits, chosen, numbers).ids, draw(shaken, chosen, numbers).ids, strict=True)
    assert sum(first != second for first, second in pairs) <= 2
