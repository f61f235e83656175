import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade_gym.curriculum.outcomes import Outcomes
from spade_gym.curriculum.regret_scorers import fit_regret_pool, hint_regret, shrunken_regrets
from spade_gym.curriculum.score import Unknown


def two_arms(plain, hinted, window=0):
    """Both arms on the seeds 0, 1, 2, …"""
    n, k = len(plain), len(hinted)
    return Outcomes.of(
        [*plain, *hinted],
        hinted=[False] * n + [True] * k,
        seeds=[*range(n), *range(k)],
        windows=[window] * (n + k),
    )


def test_plain_and_paired_have_one_mean_and_different_errors():
    outcomes = two_arms([0, 0, 1, 1], [1, 0, 1, 1])
    plain, paired = hint_regret(outcomes), hint_regret(outcomes, pairing="paired")
    assert plain.value == paired.value == 0.25
    assert plain.n == paired.n == 8
    assert plain.standard_error == pytest.approx(math.sqrt(1 / 12 + 0.25 / 4))  # variances 1/3 and 1/4
    assert paired.standard_error == pytest.approx(0.25)  # differences 1, 0, 0, 0


def test_regret_is_signed():
    assert hint_regret(two_arms([1, 1], [0, 1])).value == -0.5


def test_only_the_window_of_the_hint_counts():
    outcomes = Outcomes.of(
        [0.0, 0.5, 0.25, 0.75, 1.0], hinted=[0, 1, 0, 1, 0], windows=[0, 0, 4, 4, 5], seeds=[1, 1, 2, 2, 3]
    )
    assert hint_regret(outcomes).value == 0.5  # window 4: 0.75 - 0.25
    assert hint_regret(outcomes, window=0).value == 0.5
    assert isinstance(hint_regret(outcomes, window=5), Unknown)


def test_a_missing_arm_is_unknown():
    assert hint_regret(two_arms([1, 0], [])) == Unknown("no plays with the hint", 2)
    assert hint_regret(two_arms([], [1])) == Unknown("no plays without the hint in window 0", 1)
    assert hint_regret(two_arms([], [])) == Unknown("no plays with the hint", 0)


def test_pairs_need_a_common_instance():
    outcomes = Outcomes.of([0, 1], hinted=[False, True], seeds=[1, 2])
    assert hint_regret(outcomes).value == 1.0
    assert "no instance" in hint_regret(outcomes, pairing="paired").reason


def test_one_play_each_has_no_standard_error():
    assert hint_regret(two_arms([0], [1])).standard_error is None


def test_shrinking_moves_towards_the_pool():
    none = [two_arms([0, 1] * 8, [0, 1] * 7 + [1, 1]) for _ in range(8)]
    helped = two_arms([0] * 12 + [1] * 4, [1] * 16)
    scores = shrunken_regrets([*none, helped])
    assert all(0 <= score.value < 1 / 16 for score in scores[:-1])
    assert 0.5 < scores[-1].value < 0.75
    assert all(score.standard_error > 0 for score in scores)


def test_equal_results_are_not_certain():
    scores = shrunken_regrets([two_arms([1] * 16, [1] * 16), two_arms([0] * 16, [0] * 16)])
    assert [score.value for score in scores] == pytest.approx([0, 0], abs=0.02)
    assert all(score.standard_error > 0 for score in scores)


def test_a_pool_may_hold_tasks_without_a_regret():
    scores = shrunken_regrets([two_arms([0, 1], [1, 1]), two_arms([0, 1], [])])
    assert scores[0].value > 0
    assert isinstance(scores[1], Unknown)
    assert isinstance(fit_regret_pool([two_arms([0, 1], [])]), Unknown)
    assert shrunken_regrets([]) == ()


def test_plain_estimates_can_be_shrunken_too():
    tasks = [two_arms([0, 1] * 4, [0, 1] * 4), two_arms([0, 0] * 4, [1, 1] * 4)]
    plain, paired = shrunken_regrets(tasks, pairing="plain"), shrunken_regrets(tasks, pairing="paired")
    assert plain[0].standard_error > paired[0].standard_error


def test_bad_input():
    pool = fit_regret_pool([two_arms([0, 1], [1, 1])])
    with pytest.raises(ValueError, match="fitted to paired regrets, this one is plain"):
        hint_regret(two_arms([0], [1]), pool=pool)
    with pytest.raises(ValueError, match="'plain' or 'paired'"):
        hint_regret(two_arms([0], [1]), pairing="both")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="returns must be finite"):
        hint_regret(two_arms([0, math.nan], [1]))


arms = st.lists(st.floats(0, 1), min_size=1, max_size=12)


@given(arms, arms, st.sampled_from(["plain", "paired"]))
def test_range(plain, hinted, pairing):
    score = hint_regret(two_arms(plain, hinted), pairing=pairing)
    assert -1 <= score.value <= 1
    assert score.standard_error is None or score.standard_error >= 0


@given(arms, arms)
def test_shrunken_range(plain, hinted):
    first, second = shrunken_regrets([two_arms(plain, hinted), two_arms(hinted, plain)])
    assert -1.5 <= second.value <= 1.5
    assert first.standard_error > 0
