from __future__ import annotations

import json
import re

import pytest
from conftest import COUNTER, make_program

from spade_gym.designer.diversity import Diversity, Notice, Watch
from spade_gym.pool import registry

OTHER = """
class TowerEnv:
    def reset(self, seed=None):
        self.pegs = [list(range(4, 0, -1)), [], []]
        return self.show(), {}

    def show(self):
        return "; ".join(" ".join(map(str, peg)) or "-" for peg in self.pegs)

    def step(self, action):
        try:
            source, target = (int(word) for word in action.split())
            disc = self.pegs[source].pop()
        except (ValueError, IndexError):
            return "No such move.", 0.0, False, False, {}
        self.pegs[target].append(disc)
        return self.show(), float(len(self.pegs[2]) == 4), len(self.pegs[2]) == 4, False, {}
"""


def kinds(notices: tuple[Notice, ...]) -> list[str]:
    return [notice.kind for notice in notices]


def test_repetitions_are_told_apart():
    diversity = Diversity()
    first = make_program()
    assert diversity.add(first) == ()
    assert diversity.add(make_program(OTHER, "TowerEnv")) == ()
    assert diversity.add(first)[0] == Notice("duplicate", "the same source as an earlier program", first.digest)
    commented = make_program(COUNTER.replace("self.turn = 0", "self.turn = 0  # none yet\n").replace("Says", "Tells"))
    assert kinds(diversity.add(commented)) == ["same_code"]
    (near,) = Diversity.add(diversity, make_program(COUNTER.replace("0.125", "0.25")))[:1]
    assert (near.kind, near.resembles, near.value) == ("near", first.digest, 1.0)
    assert first.digest in diversity
    assert "0" * 64 not in diversity


def test_bundled_programs_are_all_different():
    diversity = Diversity()
    notices = {program.name: kinds(diversity.add(program)) for program in registry()}
    assert {name: found for name, found in notices.items() if found} == {}
    count = len(notices)
    assert diversity.summary() == (count, count, count, 1 / count)


def test_one_skeleton_that_dominates_raises_the_alarm():
    diversity = Diversity(Watch(window=8, limit=4))
    found = []
    for number in range(6):
        renamed = re.sub(r"\bturn\b", f"clock_{number}", COUNTER.replace("You win", f"Won {number}"))
        found.append([kind for kind in kinds(diversity.add(make_program(renamed))) if kind == "skeleton"])
    assert found == [[], [], [], ["skeleton"], ["skeleton"], ["skeleton"]]
    assert diversity.add(make_program(OTHER, "TowerEnv")) == ()
    assert diversity.summary() == (7, 7, 2, 6 / 7)


def test_the_alarm_ends_when_the_designer_goes_on_to_others():
    diversity = Diversity(Watch(window=2, limit=2))
    assert kinds(diversity.add(make_program())) == []
    assert kinds(diversity.add(make_program())) == ["duplicate", "skeleton"]
    assert kinds(diversity.add(make_program(OTHER, "TowerEnv"))) == []
    assert kinds(diversity.add(make_program())) == ["duplicate"]


def test_a_copied_passage_is_noticed():
    text = "the tide sets every boat off its course and the pilot must correct for it with the rudder all day long"
    program = make_program(COUNTER.replace("You lose.", f"You lose: {text}"))
    (notice,) = Diversity().add(program, f"As said, {text}, alas.")
    assert notice.kind == "document"
    assert "a passage of 21 words" in notice.message
    assert Diversity().add(program, "Another document.") == ()
    assert Diversity().add(program) == ()


def test_the_state_survives_json():
    diversity, twin = Diversity(Watch(limit=2)), Diversity(Watch(limit=2))
    diversity.add(make_program())
    diversity.add(make_program(OTHER, "TowerEnv"))
    state = json.loads(json.dumps(diversity.state_dict()))
    twin.load_state_dict(state)
    assert json.loads(json.dumps(twin.state_dict())) == state
    again = make_program(COUNTER.replace("0.125", "0.5"))
    assert twin.add(again) == diversity.add(again) != ()
    assert twin.summary() == diversity.summary() == (3, 3, 2, 2 / 3)


@pytest.mark.parametrize("wrong", [{"near": 0.0}, {"skeleton": 1.5}, {"limit": 9}, {"limit": 1}, {"passage": 0}])
def test_settings_out_of_range_are_refused(wrong: dict[str, float]):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Watch(**wrong)
