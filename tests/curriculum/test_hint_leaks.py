import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade_gym.curriculum.hint_leaks import answer_overlap, check_hint_leak
from spade_gym.curriculum.outcomes import Outcomes
from spade_gym.curriculum.score import Unknown


def test_overlap_by_hand():
    assert answer_overlap("The answer is 42.", r"\boxed{42}") == 1.0
    assert answer_overlap("Count the doors and use \\boxed{}.", r"\boxed{42}") == 0.0
    assert answer_overlap("Go NORTH twice.", "go north\ngo east") == pytest.approx(3 / 4)  # 2 of 2, 1 of 2
    assert answer_overlap("142 doors", "42") == 0.0
    assert answer_overlap("", "go") == 0.0
    assert answer_overlap("go", "") == 0.0


@given(st.text(max_size=60), st.text(max_size=30))
def test_overlap_range(hint, answer):
    assert 0 <= answer_overlap(hint, answer) <= 1


def others(hinted_wins, num_hinted, plain_wins, num_plain):
    """Plays of instances 1, 2, …; the hint was written for instance 0."""
    returns = [1.0] * hinted_wins + [0.0] * (num_hinted - hinted_wins)
    returns += [1.0] * plain_wins + [0.0] * (num_plain - plain_wins)
    return Outcomes.of(
        [*returns, 1.0],
        hinted=[True] * num_hinted + [False] * num_plain + [True],
        seeds=[*range(1, num_hinted + 1), *range(1, num_plain + 1), 0],
    )


def test_a_hint_that_wins_everywhere_leaks():
    found = check_hint_leak(others(32, 32, 8, 16), written_for=0, hint="Say 7.", answers=["7", "9"])
    assert found.leaks
    assert (found.win_share, found.plain_share, found.overlap, found.num_plays) == (1.0, 0.5, 1.0, 32)


def test_a_hint_that_helps_does_not():
    assert not check_hint_leak(others(22, 32, 8, 16), written_for=0).leaks
    assert not check_hint_leak(others(4, 4, 0, 4), written_for=0).leaks  # four wins prove nothing


def test_overlap_alone_does_not_accuse():
    found = check_hint_leak(others(4, 16, 4, 16), written_for=0, hint="7", answers=["7"])
    assert (found.overlap, found.leaks) == (1.0, False)


def test_unknown():
    assert isinstance(check_hint_leak(Outcomes.of([1.0], hinted=[True], seeds=[0]), written_for=0), Unknown)
    easy = check_hint_leak(others(32, 32, 16, 16), written_for=0)
    assert easy == Unknown("these instances are won without the hint too", 48)
    with pytest.raises(ValueError, match="max_share"):
        check_hint_leak(others(1, 1, 1, 1), written_for=0, max_share=2)
