import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade_gym.curriculum.outcomes import Outcomes
from spade_gym.curriculum.plateau_scorers import (
    clipped_regret,
    plateau,
    plateau_score,
    solve_rate_score,
    spade_score,
)
from spade_gym.curriculum.regret_scorers import fit_regret_pool
from spade_gym.curriculum.score import Unknown


def test_plateau_by_hand():
    assert plateau(0.5) == 1.0
    assert plateau(0.7) == pytest.approx(0.6)  # 1 - 0.1/0.25
    assert plateau(0.3) == pytest.approx(0.6)
    assert plateau(0.9) == 0.0
    assert plateau(-1.0) == 0.0


@pytest.mark.parametrize(
    ("settings", "name"), [({"ramp": 0.0}, "ramp"), ({"low": 0.7}, "low"), ({"ramp": math.nan}, "ramp")]
)
def test_plateau_refuses(settings, name):
    with pytest.raises(ValueError, match=name):
        plateau(0.5, **settings)
    with pytest.raises(ValueError, match="win_rate must be finite"):
        plateau(math.nan)


@given(st.floats(-10, 10), st.floats(0, 0.5), st.floats(0.5, 1), st.floats(0.01, 1))
def test_plateau_range(rate, low, high, ramp):
    assert 0 <= plateau(rate, low=low, high=high, ramp=ramp) <= 1


def test_clipped_regret():
    assert [clipped_regret(x) for x in (-0.3, 0.0, 0.075, 0.15, 1.0)] == [0.0, 0.0, 0.5, 1.0, 1.0]
    with pytest.raises(ValueError, match="scale must be greater than 0"):
        clipped_regret(0.1, scale=0.0)


def test_plateau_score_counts_wins_or_returns():
    outcomes = Outcomes.of([0.5] * 8)  # never won
    assert plateau_score(outcomes).value == 0.0
    assert plateau_score(outcomes, of="return").value == 1.0
    assert plateau_score(outcomes).standard_error is None
    assert plateau_score(Outcomes.of([])) == Unknown("no plays without the hint")


def test_plateau_score_of_the_last_windows():
    outcomes = Outcomes.of([1, 1, 1, 0], windows=[0, 0, 1, 1])
    assert plateau_score(outcomes, num_windows=1).value == 1.0  # 0.5
    assert plateau_score(outcomes).value == pytest.approx(0.4)  # 0.75
    assert solve_rate_score(outcomes) == plateau_score(outcomes)


def test_spade_by_hand():
    # won 2 of 5 (0.4): plateau 1. Regret (2 of 2) - (1 of 2) in window 0: 0.5, clipped 1.
    outcomes = Outcomes.of(
        [0, 1, 1, 1, 0, 1, 0], hinted=[0, 0, 1, 1, 0, 0, 0], windows=[0, 0, 0, 0, 1, 1, 1], seeds=[1, 2, 1, 2, 3, 4, 5]
    )
    assert spade_score(outcomes).value == pytest.approx(1.0)
    assert spade_score(outcomes, regret_scale=1.0).value == pytest.approx(0.8)
    assert spade_score(outcomes, plateau_weight=1.0, regret_weight=0.0).value == 1.0
    assert spade_score(outcomes).n == 7


def test_spade_is_unknown_where_a_term_is():
    assert spade_score(Outcomes.of([0, 1])) == Unknown("no plays with the hint", 2)
    assert spade_score(Outcomes.of([1], hinted=[True])) == Unknown("no plays without the hint")


def test_spade_with_a_pool():
    tasks = [
        Outcomes.of([0, 1, 0, 1, 0, 1, 1, 1], hinted=[0] * 4 + [1] * 4, seeds=[1, 2, 3, 4] * 2),
        Outcomes.of([0, 1, 0, 1, 0, 1, 0, 1], hinted=[0] * 4 + [1] * 4, seeds=[1, 2, 3, 4] * 2),
    ]
    pool = fit_regret_pool(tasks, pairing="paired")
    shrunken = spade_score(tasks[0], pairing="paired", pool=pool).value
    assert 0.6 < shrunken < spade_score(tasks[0], pairing="paired").value == 1.0


def test_weights_are_checked():
    with pytest.raises(ValueError, match="plateau_weight must be from 0 to 1, got 2"):
        spade_score(Outcomes.of([0, 1]), plateau_weight=2)


@given(st.lists(st.tuples(st.floats(-1, 1), st.booleans()), max_size=16))
def test_spade_range(rows):
    score = spade_score(Outcomes.of([r for r, _ in rows], hinted=[h for _, h in rows]), of="return")
    assert isinstance(score, Unknown) or 0 <= score.value <= 1
