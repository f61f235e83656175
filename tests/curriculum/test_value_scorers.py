import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade_gym.curriculum.score import Unknown
from spade_gym.curriculum.value_scorers import (
    ValuedEpisode,
    advantages,
    discounted_returns,
    l1_value_loss,
    max_monte_carlo,
    policy_entropy,
    positive_value_loss,
    td_error,
    td_errors,
)

WON = ValuedEpisode([0, 1], [0.5, 0.5], terminated=True, final_value=9.0)
CUT = ValuedEpisode([0, 0], [0.5, 0.5], terminated=False, final_value=1.0)
LOST = ValuedEpisode([0, 0], [0.5, 0.5], terminated=True)


def test_a_terminated_episode_is_worth_nothing_afterwards():
    # γ = 0.5: δ₀ = 0 + 0.25 - 0.5, δ₁ = 1 + 0 - 0.5; the final value of 9 does not count
    assert td_errors(WON, gamma=0.5).tolist() == [-0.25, 0.5]
    # truncated: δ₁ = 0 + 0.5 · 1 - 0.5
    assert td_errors(CUT, gamma=0.5).tolist() == [-0.25, 0.0]


def test_advantages_by_hand():
    # γλ = 0.25: A₁ = 0.5, A₀ = -0.25 + 0.125
    assert advantages(WON, gamma=0.5, lam=0.5).tolist() == [-0.125, 0.5]
    # λ = 0: the errors themselves; λ = 1: discounted return minus value
    assert advantages(WON, gamma=0.5, lam=0).tolist() == [-0.25, 0.5]
    assert advantages(WON, gamma=1, lam=1).tolist() == [0.5, 0.5]


def test_losses_by_hand():
    settings = {"gamma": 0.5, "lam": 0.5}
    assert positive_value_loss([WON], **settings).value == pytest.approx(0.25)  # (0 + 0.5) / 2
    assert l1_value_loss([WON], **settings).value == pytest.approx(0.3125)
    assert td_error([WON], gamma=0.5).value == pytest.approx(0.375)


def test_the_positive_part_is_taken_after_summing():
    # γ = λ = 1: δ = (1, -1), A = (0, -1): nothing positive, though one error is
    episode = ValuedEpisode([0, 0], [0.0, 1.0], terminated=True)
    assert positive_value_loss([episode], gamma=1, lam=1).value == 0.0
    assert td_error([episode], gamma=1).value == 1.0


def test_long_episodes_do_not_weigh_more():
    # one step with |δ| = 1, four steps with δ = 0
    short = ValuedEpisode([1], [0.0], terminated=True)
    long = ValuedEpisode([0] * 4, [0.0] * 4, terminated=True)
    score = td_error([short, long])
    assert (score.value, score.n) == (0.5, 2)
    assert score.standard_error == pytest.approx(0.5)
    assert td_error([short]).standard_error is None


def test_max_monte_carlo_by_hand():
    # best return 1 (WON): the means of 1 - 0.5 over steps, for both
    assert max_monte_carlo([WON, LOST]).value == pytest.approx(0.5)
    assert max_monte_carlo([LOST]).value == pytest.approx(-0.5)
    assert max_monte_carlo([LOST], best_return=2.0).value == pytest.approx(1.5)
    early = ValuedEpisode([0, 1], [0.25, 0.75], terminated=True)
    assert max_monte_carlo([early], dense=True).value == pytest.approx(0.75)
    assert max_monte_carlo([early], gamma=0.5).value == pytest.approx(0.0)


def test_entropy_is_positive_and_in_nats():
    policy = np.array([[0.5, 0.5], [1.0, 0.0]])
    episode = ValuedEpisode([0, 0], [0, 0], terminated=True, probabilities=policy)
    assert policy_entropy([episode]).value == pytest.approx(math.log(2) / 2)
    with pytest.raises(ValueError, match="probabilities are missing"):
        policy_entropy([WON])


def test_discounted_returns():
    assert discounted_returns([0, 0, 1], gamma=0.99).tolist() == pytest.approx([0.9801, 0.99, 1.0])
    assert discounted_returns([1], gamma=0.5, final_value=4).tolist() == [3.0]
    assert discounted_returns([]).tolist() == []


@pytest.mark.parametrize("scorer", [positive_value_loss, l1_value_loss, td_error, max_monte_carlo, policy_entropy])
def test_no_episodes_are_unknown(scorer):
    assert scorer([]) == Unknown("no episodes")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rewards": [0], "values": [0], "terminated": False}, "final_value is missing"),
        ({"rewards": [0, 1], "values": [0], "terminated": True}, "one length of at least 1, got 2, 1"),
        ({"rewards": [], "values": [], "terminated": True}, "one length of at least 1"),
        ({"rewards": [math.nan], "values": [0], "terminated": True}, "rewards must be finite"),
        ({"rewards": [0], "values": [0], "terminated": False, "final_value": math.inf}, "final_value must be finite"),
        (
            {"rewards": [0], "values": [0], "terminated": True, "probabilities": [[0.5, 0.6]]},
            "sum to 1, got a sum of 1.1",
        ),
        ({"rewards": [0], "values": [0], "terminated": True, "probabilities": [0.5, 0.5]}, r"shape \(1, actions\)"),
    ],
)
def test_bad_episodes(arguments, message):
    with pytest.raises(ValueError, match=message):
        ValuedEpisode(**arguments)


def test_settings_are_checked():
    with pytest.raises(ValueError, match="gamma must be from 0 to 1"):
        td_error([WON], gamma=1.1)
    with pytest.raises(ValueError, match="lam must be from 0 to 1"):
        l1_value_loss([WON], lam=-1)


steps = st.lists(st.tuples(st.floats(-1, 1), st.floats(-1, 1)), min_size=1, max_size=8)


@given(steps, st.floats(0, 1), st.floats(0, 1), st.booleans())
def test_properties(rows, gamma, lam, terminated):
    episode = ValuedEpisode([r for r, _ in rows], [v for _, v in rows], terminated=terminated, final_value=0.5)
    positive = positive_value_loss([episode], gamma=gamma, lam=lam).value
    assert 0 <= positive <= l1_value_loss([episode], gamma=gamma, lam=lam).value + 1e-12
    assert advantages(episode, gamma=gamma, lam=1.0) == pytest.approx(
        discounted_returns(episode.rewards, gamma=gamma, final_value=episode.bootstrap) - episode.values, abs=1e-9
    )
