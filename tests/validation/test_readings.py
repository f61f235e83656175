"""What the checks of answers make of texts: fragments, disguises, reading rules and differences of plays."""

from __future__ import annotations

import pytest

from spade_gym.errors import ProgramError
from spade_gym.types import Transition
from spade_gym.validation.answers import fragments
from spade_gym.validation.determinism import first_difference
from spade_gym.validation.finding import failure, shorten
from spade_gym.validation.injection import disguises
from spade_gym.validation.leaks import _box_reader, _labelled
from spade_gym.validation.plays import Play
from spade_gym.validation.rewards import is_reward_fault


@pytest.mark.parametrize("answer", ["7", "yes", "x = 4", "0.5", "12.50", "B) red", "-3"])
def test_parts_that_a_lenient_check_may_take_are_no_fragments(answer: str):
    # Of a word, only parts without its initial count; of a labelled or decimal answer, none.
    assert all(not answer.startswith(part) for part in fragments(answer).values())


def test_fragments_of_numbers_and_lists():
    assert fragments("1234") == {
        "its last character": "4",
        "its middle character": "3",
        "its second half": "34",
        "its first character": "1",
        "all but its last character": "123",
    }
    assert fragments("5, 8, 13")["its first element"] == "5"
    assert fragments("5, 8, 13")["its last element"] == "13"


@pytest.mark.parametrize(
    ("answer", "expression"), [("42", "(lambda: 50000042 - 50000000)()"), ("north", "'htron'[::-1]")]
)
def test_disguised_answers_evaluate_to_the_answer_and_do_not_show_it(answer: str, expression: str):
    (disguise,) = disguises(answer).values()
    assert disguise.text == expression
    assert str(eval(disguise.text)) == answer
    assert answer not in disguise.parts
    assert all(part in disguise.text for part in disguise.parts)


@pytest.mark.parametrize("answer", ["", "1", "2", "anna", "a b", "AB/CD"])
def test_answers_that_picking_characters_could_reveal_are_not_disguised(answer: str):
    assert disguises(answer) == {}


def test_reading_rules_carry_over_to_other_texts():
    readers = _labelled("Current part: 3\nTurn 0/20. Secret word is 'plum'.")
    other = "Current part: 5\nTurn 0/20. Secret word is 'fig'."
    read = {name: reader(other) for name, reader in readers.items()}
    assert read["the number after 'Current part:'"] == "5"
    assert "fig" in read.values()


def test_boxes_are_read_by_place():
    text = "Say \\boxed{a} or \\boxed{b}"
    assert [_box_reader(index)(text) for index in (0, 1, -1, 2)] == ["a", "b", "b", None]
    assert _box_reader(-1)("nothing") is None


def play_of(*observations: str, fault: str = "") -> Play:
    transitions = [Transition(text, 0.0, False, False, {}) for text in observations]
    return Play(0, "probe", transitions=transitions, fault=ProgramError(fault) if fault else None)


def test_the_first_difference_of_two_plays():
    assert first_difference(play_of("a", "b"), play_of("a", "b")) is None
    assert first_difference(play_of("a", "b"), play_of("a", "c")) == (
        1,
        [["b", 0.0, False, False], ["c", 0.0, False, False]],
    )
    assert first_difference(play_of("a"), play_of("a", fault="KeyError")) == (1, [None, "KeyError"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the reward must be finite, got nan", True),
        ("the reward must be a number, got NoneType: None", True),
        ("KeyError: 'reward'", False),
    ],
)
def test_faults_about_rewards(text: str, expected: bool):
    assert is_reward_fault(ProgramError(text)) is expected
    assert not is_reward_fault(None)


def test_evidence_is_cut_to_a_readable_size():
    finding = failure("reward", "too much", text="x" * 10_000, rows=list(range(100)))
    assert len(finding.evidence["text"]) < 700
    assert finding.evidence["rows"][-1] == "… (100 items)"
    assert shorten({"a": [1.5, None, True]}) == {"a": [1.5, None, True]}
