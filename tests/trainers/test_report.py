from __future__ import annotations

import pytest

from spade_trainers.report import WinRate, wilson


def test_wilson_values_worked_out_by_hand():
    # z = 1.959964, z² = 3.841459. 50 of 100: centre .5, half width z·sqrt(.0025 + .000096036)/1.038415 = .096168.
    assert wilson(50, 100) == pytest.approx((0.403832, 0.596168), abs=1e-6)
    # 0 of 100: upper end z²/(100 + z²) = 3.841459/103.841459.
    assert wilson(0, 100) == pytest.approx((0.0, 0.036994), abs=1e-6)
    assert wilson(100, 100) == pytest.approx((1 - 0.036994, 1.0), abs=1e-6)
    assert wilson(0, 0) == (0.0, 1.0)


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
