from __future__ import annotations

from pathlib import Path

import pytest

from spade_gym import plugins
from spade_gym.curriculum import preset
from spade_gym.curriculum.generators import Parameters, SlidingDifficulty
from spade_gym.curriculum.schedules import Replay
from spade_gym.curriculum.scorers import BUILT_IN
from spade_gym.curriculum.task import Outcome
from spade_gym.testing import check_generator, check_sampler, check_scorer

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


THIRD_PARTY = """
from spade_gym.curriculum.samplers import Uniform
from spade_gym.curriculum.score import Score, Unknown
from spade_gym.curriculum.task import Task


def longest(outcomes, *, least=0):
    return Score(float(max(outcomes.lengths.max(), least)), None, len(outcomes)) if len(outcomes) else Unknown("none")


class Evens:
    def __init__(self, top=10):
        self.top = top

    def generate(self, rng):
        return Task("reset", {"x": 2 * int(rng.integers(self.top))})
"""


def test_third_parties_add_scorers_samplers_and_generators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "third_party-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: third-party\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[spade_gym.scorers]\nlongest = third_party_parts:longest\n"
        "[spade_gym.samplers]\nfair = third_party_parts:Uniform\n"
        "[spade_gym.generators]\nevens = third_party_parts:Evens\n"
    )
    (tmp_path / "third_party_parts.py").write_text(THIRD_PARTY)
    monkeypatch.syspath_prepend(tmp_path)
    curriculum = preset.make(
        "plr", scorer={"name": "longest", "least": 3}, sampler={"name": "fair"}, generator={"name": "evens", "top": 5}
    )
    ticket = curriculum.ask()
    assert ticket.task.value["x"] in (0, 2, 4, 6, 8)
    curriculum.tell(Outcome(ticket.id, ticket.seeds[0], 1.0, True, length=2))
    assert curriculum.ranked()[0][1] == 3.0
    check_generator(lambda: plugins.load("generators", "evens")())
    check_scorer(plugins.load("scorers", "longest"))
    check_sampler(plugins.load("samplers", "fair")())
    with pytest.raises(preset.UnknownName, match=r"Known: .*longest"):
        preset.make("plr", scorer={"name": "shortest"})


def test_every_built_in_scorer_is_unknown_without_plays() -> None:
    from spade_gym.curriculum.outcomes import Outcomes
    from spade_gym.curriculum.score import Unknown

    for name, scorer in BUILT_IN.items():
        result = scorer(Outcomes.of([]))
        assert isinstance(result, Unknown), name
        assert result.reason
