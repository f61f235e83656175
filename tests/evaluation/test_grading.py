from __future__ import annotations

from typing import Any

import pytest

from spade_gym.evaluation.grading import Grader
from spade_gym.evaluation.question import Case, Question
from spade_gym.evaluation.suite import Task
from spade_gym.programs.program import Manifest, Program

TASK = Task("t", "g", "t")


def question(kind: Any, **fields: Any) -> Question:
    return Question(task=TASK, kind=kind, text="?", **fields)


def code(body: str) -> str:
    return f"Here:\n```python\n{body}\n```"


ADD = question("code", tests="assert add(1, 2) == 3\nassert add(-1, 1) == 0", seconds=2.0)


def test_code_is_right_when_nothing_raises() -> None:
    grader = Grader()
    assert grader.grade(ADD, code("def add(a, b):\n    print('noise')\n    return a + b")).right
    assert grader.grade(ADD, code("import numpy as np\ndef add(a, b):\n    return int(np.add(a, b))")).right


@pytest.mark.parametrize(
    ("body", "note"),
    [
        ("def add(a, b):\n    return 3", "AssertionError"),
        ("def sub(a, b):\n    return a - b", "NameError"),
        ("def add(a, b):\n    while True: pass", "timeout"),
        ("import os\nos._exit(0)", "crash"),
        ("raise SystemExit(0)", "SystemExit"),
        ("x = 'a' * (8 << 30)", "Memory"),
        ("def add(a, b: return", "SyntaxError"),
    ],
)
def test_code_that_fails_hangs_or_dies_is_wrong_and_not_a_fault(body: str, note: str) -> None:
    grade = Grader().grade(ADD, code(body))
    assert (grade.score, grade.right) == (0.0, False)
    assert note.lower() in grade.note.lower()


def test_code_reaches_neither_files_nor_the_network() -> None:
    reads = question("code", tests="assert secret")
    body = "secret = ''\ntry:\n    secret = open('/etc/passwd').read()\nexcept OSError:\n    pass"
    assert not Grader().grade(reads, code(body)).right
    connects = question("code", tests="assert done")
    body = "import socket\nsocket.create_connection(('127.0.0.1', 80))\ndone = True"
    assert not Grader().grade(connects, code(body)).right


def test_an_answer_does_not_change_how_the_next_one_is_graded() -> None:
    grader = Grader()
    vandal = "import builtins, sys\nbuiltins.compile = lambda *a: 'pass'\nsys.modules['json'].loads = None\n"
    grader.grade(ADD, code(vandal + "def add(a, b):\n    return 3"))
    assert not grader.grade(ADD, code("def add(a, b):\n    return 3")).right
    assert grader.grade(ADD, code("def add(a, b):\n    return a + b")).right


def test_what_code_writes_is_compared_outside() -> None:
    total = question("code", cases=(Case("1 2\n", "3\n"), Case("5 6\n", "11")))
    grader = Grader()
    assert grader.grade(total, code("a, b = map(int, input().split())\nprint(a + b, '')")).right
    assert grader.grade(total, code("import sys\nprint(sum(map(int, sys.stdin.read().split())))\nsys.exit()")).right
    assert grader.grade(total, code("print(3)")).note == "case 2: another output"
    assert grader.grade(total, code("print(1 / 0)")).note.startswith("case 1: ZeroDivisionError")
    assert not grader.grade(total, code("print('3' * 2_000_000)")).right
    assert not grader.grade(total, "no code at all").right


def test_choices_and_texts() -> None:
    grader = Grader()
    choice = question("choice", choices=("a", "b"), answer="B")
    assert grader.grade(choice, r"\boxed{B}").right
    assert not grader.grade(choice, r"\boxed{A}").right
    assert grader.grade(choice, "B?").note == "the reply holds no answer"
    exact = question("exact", answer="two  words")
    assert grader.grade(exact, "\\boxed{two words}").right
    assert not grader.grade(exact, "\\boxed{Two words}").right


def test_mathematics_means_the_same_in_many_forms() -> None:
    pytest.importorskip("math_verify", reason="math-verify is not installed (extra math)")
    grader = Grader()
    grader.prepare({"math"})
    half = question("math", answer=r"\frac{1}{2}")
    for text in ("0.5", "1/2", r"\frac12", r"\dfrac{2}{4}", r"\sqrt{\frac{1}{4}}"):
        assert grader.grade(half, rf"So \boxed{{{text}}}.").right, text
    for text in ("0.51", "2", "one half", r"\frac{1}{"):
        assert grader.grade(half, f"Answer: {text}").score == 0.0, text
    assert grader.grade(question("math", answer="73"), r"\boxed{073}").right


def test_what_a_mathematical_answer_calls_is_not_run_here() -> None:
    pytest.importorskip("math_verify", reason="math-verify is not installed (extra math)")
    attack = r"\boxed{__import__('os')._exit(7)}"
    assert not Grader().grade(question("math", answer="1"), attack).right


SCORER = """
class ScorerEnv:
    def reset(self, seed=None):
        return "?" if seed == 0 else "another", {}

    def step(self, action):
        worth = eval(action)
        return "", eval(worth), True, False, {}
"""


def test_a_scorer_that_fails_is_a_fault_and_no_zero() -> None:
    scorer = Program(SCORER, Manifest(name="Scorer", setting="single_turn", class_name="ScorerEnv"))
    asked = question("reasoning_gym", grader=scorer)
    grader = Grader()
    assert grader.grade(asked, "<answer>1.0</answer>").right
    partial = grader.grade(asked, "<answer>0.25</answer>")
    assert (partial.score, partial.right) == (0.25, False)
    for answer in ("1 / 0", "int('x')", "7.0", "[][0]"):
        assert grader.grade(asked, f"<answer>{answer}</answer>").score is None, answer
    assert grader.grade(asked, "no answer").score == 0.0
    moved = question("reasoning_gym", grader=scorer, instance=1)
    assert "not the question" in grader.grade(moved, "<answer>1.0</answer>").note
