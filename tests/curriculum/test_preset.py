from __future__ import annotations

import pytest

from spade_gym.curriculum import preset
from spade_gym.curriculum.generators import Parameters, SlidingDifficulty
from spade_gym.curriculum.schedules import Replay
from spade_gym.curriculum.scorers import BUILT_IN
from spade_gym.curriculum.task import Outcome

EXPECTED = {
    "uniform", "plr", "robust-plr", "accel", "sfl", "alp", "exp3", "rlve-window", "spade", "spade-lp",
    "spade-solve-rate",
}  # fmt: skip


def test_every_method_of_the_issue_is_a_preset() -> None:
    assert set(preset.names()) == EXPECTED


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_every_preset_hands_out_tickets_and_learns(name: str) -> None:
    generator = SlidingDifficulty() if name == "rlve-window" else Parameters({"x": (0, 10_000)})
    curriculum = preset.make(name, generator=generator, seed=1)
    for number in range(1200):
        ticket = curriculum.ask()
        for seed in ticket.seeds:
            won = (number * 7) % 3 == 0
            assert curriculum.tell(Outcome(ticket.id, seed, float(won), won, 4)) == "counted"
    assert curriculum.receipts["counted"] >= 1200
    assert len(curriculum.ranked()) == len(curriculum.memory)


def test_the_default_is_a_preset() -> None:
    assert preset.DEFAULT in preset.names()
    curriculum = preset.make(generator=Parameters({"x": (0, 9)}))
    assert isinstance(curriculum.schedule, Replay)
    assert curriculum.sampler == preset.make(preset.DEFAULT).sampler


def test_options_can_be_overridden_by_part() -> None:
    curriculum = preset.make("plr", generator=Parameters({"x": (0, 9)}), schedule={"replay_probability": 0.25})
    assert isinstance(curriculum.schedule, Replay)
    assert curriculum.schedule.replay_probability == 0.25
    assert curriculum.schedule.min_records == 50
    other = preset.make("plr", generator=Parameters({"x": (0, 9)}), schedule={"name": "fill-then-replay"})
    assert type(other.schedule).__name__ == "FillThenReplay"


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(preset.UnknownName, match=r"unknown preset 'plrr'; did you mean 'plr'\? Known: accel, alp"):
        preset.make("plrr")
    with pytest.raises(preset.UnknownName, match="unknown scorer 'learnabilty'; did you mean"):
        preset.make("plr", scorer={"name": "learnabilty"})
    with pytest.raises(preset.UnknownName, match="unknown option of the sampler 'prioritised' 'temprature'"):
        preset.make("plr", sampler={"temprature": 1.0})
    with pytest.raises(preset.UnknownName, match="no option 'hgih'"):
        preset.make("spade", scorer={"hgih": 0.7})
    with pytest.raises(preset.UnknownName, match="unknown part of a curriculum 'buffer'"):
        preset.make("plr", buffer={"capacity": 3})
    with pytest.raises(ValueError, match="needs a SlidingDifficulty"):
        preset.make("rlve-window", generator=Parameters({"x": (0, 9)}))


def test_every_built_in_scorer_is_unknown_without_plays() -> None:
    from spade_gym.curriculum.outcomes import Outcomes
    from spade_gym.curriculum.score import Unknown

    for name, scorer in BUILT_IN.items():
        result = scorer(Outcomes.of([]))
        assert isinstance(result, Unknown), name
        assert result.reason
