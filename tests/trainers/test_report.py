from __future__ import annotations

from spade_trainers.report import WinRate


def test_text_of_a_rate():
    assert str(WinRate(3, 4)) == "won 3 of 4 (0.75, 95 % interval 0.30 to 0.95)"
    assert str(WinRate(0, 3, faulty=1)).endswith(", 1 faulty plays left out")


def test_only_faulty_plays_give_no_rate():
    rate = WinRate(0, 0, faulty=5)
    assert rate.rate is None
    assert str(rate) == "unknown: all 5 plays were faulty"
    assert rate.as_json() == {
        "wins": 0,
        "plays": 0,
        "faulty": 5,
        "mean_return": None,
        "rate": None,
        "interval": [0.0, 1.0],
    }
