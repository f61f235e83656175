from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spade_gym.evaluation.question import Case
from spade_gym.evaluation.question_file import read_question_file
from spade_gym.evaluation.suite import SuiteError


def written(folder: Path, *rows: Any) -> Path:
    path = folder / "suite.jsonl"
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows) + "\n")
    return path


GPQA = {"id": "g", "question": "Which?", "choices": ["red", "green", "blue", "grey"], "answer": "green"}


def test_kinds_are_told_by_their_fields(tmp_path: Path) -> None:
    suite = read_question_file(
        written(
            tmp_path,
            {"question": "1 + 1?", "answer": 2, "meta": {"year": 2024}},
            "",
            GPQA,
            {"question": "add", "tests": ["x = 1", "assert f(x)"], "seconds": 3, "group": "hard"},
            {"question": "sum", "cases": [{"input": "1 2", "output": "3"}]},
            {"question": "hi", "answer": "hi", "kind": "exact"},
        )
    )
    assert [question.kind for question in suite.questions] == ["math", "choice", "code", "code", "exact"]
    assert [task.name for task in suite.tasks] == ["1", "g", "4", "5", "6"]
    assert suite.questions[0].answer == "2"
    assert (suite.questions[2].tests, suite.questions[2].seconds) == ("x = 1\nassert f(x)", 3.0)
    assert suite.tasks[2].group == "hard"
    assert suite.questions[3].cases == (Case("1 2", "3"),)


def test_choices_are_shuffled_by_the_seed_and_the_right_letter_moves_along(tmp_path: Path) -> None:
    path = written(tmp_path, *({**GPQA, "id": number} for number in range(40)))
    orders = set()
    for seed in range(3):
        questions = read_question_file(path, seed=seed).questions
        assert questions == read_question_file(path, seed=seed).questions
        for question in questions:
            assert question.choices["ABCD".index(question.answer)] == "green"
            assert f"{question.answer}) green" in question.shown
        orders.add(tuple(question.choices for question in questions))
        assert {question.answer for question in questions} == set("ABCD")
    assert len(orders) == 3
    (plain,) = read_question_file(written(tmp_path, {**GPQA, "shuffle": False, "answer": 2})).questions
    assert (plain.choices, plain.answer) == (("red", "green", "blue", "grey"), "C")


def test_the_first_so_many_and_a_digest_of_what_they_ask(tmp_path: Path) -> None:
    path = written(tmp_path, *({"question": f"{number}?", "answer": number} for number in range(5)))
    few = read_question_file(path, tasks=2)
    assert len(few.tasks) == 2
    assert few.describe() != read_question_file(path).describe()
    assert few.describe() == read_question_file(path, tasks=2).describe()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"question": "?", "choises": ["a", "b"], "answer": "a"}, "did you mean"),
        ({"question": "?"}, "answer must be a text or a number"),
        ({"question": " ", "answer": 1}, "question must be a text"),
        ({"question": "?", "answer": True}, "answer must be"),
        ({"question": "?", "answer": 1, "kind": "essay"}, "kind must be one of"),
        ({**GPQA, "answer": "pink"}, "or its text"),
        ({**GPQA, "answer": 4}, "from 0 to 3"),
        ({**GPQA, "choices": ["a"]}, "2 to 26"),
        ({**GPQA, "choices": ["a", "a"], "answer": "a"}, "or its text"),
        ({"question": "?", "tests": "def ("}, "no Python"),
        ({"question": "?", "tests": "x", "cases": []}, "either tests"),
        ({"question": "?", "cases": []}, "not empty"),
        ({"question": "?", "cases": [{"input": "1"}]}, "a case is"),
        ({"question": "?", "tests": "x", "seconds": 0}, "above 0"),
        ("[1]", "JSON object"),
        ("{", "line 1"),
        ("[" * 100_000, "line 1"),
    ],
)
def test_what_is_wrong_with_a_line_is_said(tmp_path: Path, row: Any, message: str) -> None:
    with pytest.raises(SuiteError, match=message):
        read_question_file(written(tmp_path, row))


def test_files_without_questions_and_equal_ids_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match="no question"):
        read_question_file(written(tmp_path, ""))
    with pytest.raises(SuiteError, match="two questions"):
        read_question_file(written(tmp_path, GPQA, GPQA))
    with pytest.raises(SuiteError, match="cannot be read"):
        read_question_file(tmp_path / "missing.jsonl")
