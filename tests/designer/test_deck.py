from __future__ import annotations

from design_requests import make_request
from hypothesis import given
from hypothesis import strategies as st

from spade_gym.designer.deck import Deck, Label

GAMES = [
    Label("best", "multi_turn", "Optimization"),
    Label("other_game", "single_turn", "Optimization"),
    Label("other_skill", "multi_turn", "Logical Deduction"),
    Label("neither", "single_turn", "Logical Deduction"),
]
TOOL = Label("tool", "tool_use", "Optimization")


def test_the_best_fit_comes_first_and_none_twice_before_all_came():
    deck = Deck([TOOL, *reversed(GAMES)])
    drawn = [deck.draw(make_request(seed=seed)) for seed in range(8)]
    assert drawn == ["best", "other_game", "other_skill", "neither"] * 2


def test_games_and_tools_do_not_stand_in_for_one_another():
    assert Deck(GAMES).draw(make_request(setting="tool_use", skill="Error Recovery")) is None
    assert Deck([TOOL]).draw(make_request()) is None
    assert Deck([*GAMES, TOOL]).draw(make_request(setting="tool_use", skill="Error Recovery")) == "tool"


def test_what_is_unknown_fits_everything():
    assert Deck([Label("unread", None, ""), GAMES[3]]).draw(make_request()) == "unread"
    assert Deck([Label("unread", None, "")]).draw(make_request(setting="tool_use")) == "unread"


def test_the_seed_decides_among_equals_whatever_their_order():
    labels = [Label(f"{number:02}", "multi_turn", "Optimization") for number in range(50)]
    drawn = {seed: Deck(labels).draw(make_request(seed=seed)) for seed in range(30)}
    assert len(set(drawn.values())) > 10
    assert drawn == {seed: Deck(labels[::-1]).draw(make_request(seed=seed)) for seed in range(30)}


@given(st.lists(st.integers(-(1 << 70), 1 << 70), min_size=4, max_size=4))
def test_any_seed_will_do_and_used_cards_count(seeds: list[int]):
    deck = Deck(GAMES)
    deck.use("best")
    deck.use("no card")
    assert {deck.draw(make_request(seed=seed)) for seed in seeds[:3]} == {"other_game", "other_skill", "neither"}
    assert deck.draw(make_request(seed=seeds[3])) == "best"


def test_a_better_fit_may_win_over_less_use():
    deck = Deck(GAMES, fit_first=True)
    assert [deck.draw(make_request(seed=seed)) for seed in range(3)] == ["best"] * 3
    assert deck.order(make_request()) == ["best", "other_game", "other_skill", "neither"]
    deck = Deck([*GAMES, Label("best_too", "multi_turn", "Optimization")], fit_first=True)
    assert {deck.draw(make_request(seed=seed)) for seed in range(2)} == {"best", "best_too"}
