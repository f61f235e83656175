from __future__ import annotations

import json

import pytest

from spade_gym.bench import curricula, curricula_cost
from spade_gym.bench.curricula import Size, measure, summary
from spade_gym.bench.curricula_report import report
from spade_gym.bench.curricula_transport import Still, measure_served, measure_wrapper
from spade_gym.cli.main import main
from spade_gym.curriculum import preset

TINY = Size(seeds=2, episodes=200, steps=2048, held_out=2, cost_pairs=50)


@pytest.fixture(scope="module")
def result():
    sizes, curricula_cost.SIZES = curricula_cost.SIZES, (100, 400)
    try:
        return measure(TINY)
    finally:
        curricula_cost.SIZES = sizes


def test_every_row_is_there(result):
    toy = {(row["preset"], row["feedback"], row["always_teaches"]) for row in result["toy"]["rows"]}
    assert len(toy) == 2 * (11 + 3)
    assert {name for name, _, _ in toy} == set(curricula.TOY_PRESETS) == set(preset.names())
    assert {name for name, _, always in toy if always} == {"robust-plr", "accel", "sfl"}
    assert [row["preset"] for row in result["maze"]["rows"]] == list(curricula.MAZE_PRESETS)
    assert all(len(row["mastered"]["values"]) == 2 for row in result["toy"]["rows"])
    assert result["default"] == preset.DEFAULT
    assert set(result["machine"]) >= {"cores", "architecture", "python"}
    assert json.loads(json.dumps(result)) == result


def test_the_same_size_gives_the_same_numbers(result):
    again = curricula._ToyRun("plr", "bernoulli", False, 1, 200)()
    row = next(row for row in result["toy"]["rows"] if row["preset"] == "plr" and row["feedback"] == "bernoulli")
    assert row["mastered"]["values"][1] == again.mastered


def test_the_table_shows_every_row(result):
    lines = list(report(result))
    for name in curricula.TOY_PRESETS:
        assert any(name in line for line in lines)
    assert any(line.startswith("default_within (plr)") for line in lines)


def test_what_the_wrapper_adds_is_measured_against_the_bare_environment():
    assert -5 < measure_wrapper("plr", num_episodes=1, repetitions=3) < 50  # loose: this machine may be busy
    bare = Still()
    bare.reset()
    assert [bare.step(0)[2] for _ in range(1000)] == [False] * 999 + [True]


def test_every_actor_of_the_server_asks_and_tells():
    served = measure_served("uniform", num_pairs=1)
    assert served["pairs"] == 64
    assert served["served_us"] > 0


def test_medians_and_intervals():
    found = summary([1.0, 2.0, 3.0, 4.0, 100.0])
    assert found["median"] == 3.0
    assert (found["low"], found["high"]) == (1.0, 100.0)
    assert summary([5.0])["low"] == 5.0


def test_goals():
    def row(name, median, always=False):
        return {"preset": name, "feedback": "bernoulli", "always_teaches": always, "mastered": {"median": median}}

    goals = curricula._goals([row("plr", 94.0), row("sfl", 96.5), row("accel", 99.0, True)])
    assert goals["best_mastered"] == {"preset": "sfl", "reached": 96.5, "bound": 95.0, "met": True}
    assert goals["default_within"] == {"preset": "plr", "reached": 2.5, "bound": 3.0, "met": True}


def test_the_command(capsys):
    assert main(["bench", "curricula", "--cost", "--quick", "--json"]) == 0
    cost = json.loads(capsys.readouterr().out)
    assert [row["records"] for row in cost["rows"]] == [200, 20_000]
    assert cost["served"]["actors"] == 64
    assert set(cost["goals"]) == {"pair_us", "ask_ratio", "served_us", "wrapper_us"}
    assert cost["goals"]["ask_ratio"]["reached"] < 10  # loose: this machine may be busy
    assert main(["bench", "curricula", "--seeds", "0"]) == 2
    assert "--seeds and --jobs must be at least 1" in capsys.readouterr().err
    with pytest.raises(ValueError, match="seeds and jobs"):
        measure(TINY, jobs=0)
