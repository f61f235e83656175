from __future__ import annotations

import json

import pytest

from spade_gym.evaluation.grading import Grader
from spade_gym.evaluation.suite import SuiteError

pytest.importorskip("bfcl_eval", reason="bfcl-eval is not installed")

from spade_gym.evaluation.bfcl import CATEGORIES, bfcl_suite


def call(*calls: tuple[str, dict]) -> str:
    return "".join(
        f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>" for name, arguments in calls
    )


def test_calls_are_checked_by_the_packages_checker() -> None:
    suite = bfcl_suite(["simple_python"], tasks=2)
    triangle, factorial = suite.questions
    grader = Grader()
    right = call(("calculate_triangle_area", {"base": 10, "height": 5}))
    assert grader.grade(triangle, right).right
    assert not grader.grade(triangle, call(("calculate_triangle_area", {"base": 10, "height": 6}))).right
    assert not grader.grade(triangle, right + right).right
    assert grader.grade(triangle, "25").note == "the reply calls no function"
    assert grader.grade(factorial, call(("math_factorial", {"number": 5}))).right
    assert factorial.functions[0]["function"]["name"] == "math_factorial"


def test_irrelevant_functions_are_not_to_be_called() -> None:
    (question,) = bfcl_suite(["irrelevance"], tasks=1).questions
    grader = Grader()
    assert grader.grade(question, "None of these helps.").right
    assert not grader.grade(question, call(("determine_body_mass_index", {"weight": 70.0, "height": 1.8}))).right


def test_every_category_opens() -> None:
    suite = bfcl_suite(tasks=2)
    assert [task.group for task in suite.tasks[::2]] == list(CATEGORIES)
    with pytest.raises(SuiteError, match="no category"):
        bfcl_suite(["multi_turn_base"])
