from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
from models.scripted_model import ScriptedModel, last_user_text

from spade_gym.evaluation.evaluate import evaluate
from spade_gym.evaluation.grading import Grader
from spade_gym.evaluation.suite import SuiteError

pytest.importorskip("reasoning_gym", reason="Reasoning Gym is not installed (extra reasoning-gym)")

from spade_gym.evaluation.reasoning_gym import reasoning_gym_suite


def added(text: str) -> str:
    """The answer to a question of chain_sum."""
    line = next(line for line in text.split("\n") if line.rstrip().endswith("= ?") or "+" in line or " - " in line)
    return str(eval(line.split("=")[0].split(":")[-1].strip(" .?")))


def test_questions_are_fixed_by_the_seed_and_global_generators_are_left_alone() -> None:
    random.seed(1)
    before = (random.getstate(), np.random.get_state()[1].tolist())  # noqa: NPY002 - the legacy state is what is meant
    names = ["chain_sum", "ransom_note", "pool_matrix"]
    suite = reasoning_gym_suite(names, tasks=3)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before  # noqa: NPY002
    assert [task.name for task in suite.tasks[:4]] == ["chain_sum/0", "chain_sum/1", "chain_sum/2", "ransom_note/0"]
    assert suite.describe() == reasoning_gym_suite(names, tasks=3).describe()
    assert suite.describe()["dataset_seed"] == 2**31
    other = reasoning_gym_suite(names, tasks=3, seed=1)
    assert other.questions[0].text != suite.questions[0].text


def test_answers_are_scored_by_the_packages_own_scorer(tmp_path: Path) -> None:
    model = ScriptedModel(
        lambda request: f"<answer>{added(last_user_text(request))}</answer>" if request.seed % 2 else "I do not know."
    )
    found = evaluate(model, "reasoning-gym:chain_sum", tasks=2, k=4, folder=tmp_path / "e")
    right = sum(request.seed % 2 for request in model.requests)
    assert found.model.avg.value == pytest.approx(right / 8)
    assert found.model.num_faulty == 0
    results = [json.loads(line) for line in (tmp_path / "e" / "results.jsonl").read_text().splitlines()[1:]]
    assert {row["result"]["right"] for row in results} == {True, False}


def test_an_answer_that_breaks_its_scorer_is_a_fault_and_harms_nobody() -> None:
    suite = reasoning_gym_suite(["prime_factorization", "string_insertion"], tasks=1)
    grader = Grader()
    fault = grader.grade(suite.questions[0], "<answer>foo</answer>")
    assert fault.score is None
    assert "ValueError" in fault.note
    attack = grader.grade(suite.questions[1], "<answer>[__import__('os')._exit(3)]</answer>")
    assert not attack.right
    assert grader.grade(suite.questions[1], "<answer>A</answer>").score is not None


def test_settings_of_data_sets_and_what_is_unknown() -> None:
    suite = reasoning_gym_suite(["chain_sum"], tasks=1, configs={"chain_sum": {"min_terms": 6, "max_terms": 6}})
    assert sum(suite.questions[0].text.count(sign) for sign in "+-") >= 5
    with pytest.raises(SuiteError, match="did you mean 'chain_sum'"):
        reasoning_gym_suite(["chain_sums"])
    with pytest.raises(SuiteError, match="not part of the suite"):
        reasoning_gym_suite(["chain_sum"], configs={"lcm": {}})
    with pytest.raises(SuiteError, match="cannot make question 0"):
        reasoning_gym_suite(["chain_sum"], configs={"chain_sum": {"terms": 3}})
    with pytest.raises(SuiteError, match="named twice"):
        reasoning_gym_suite(["lcm", "lcm"])
