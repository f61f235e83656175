"""A JSONL file of questions, given by a user: one JSON object a line (``docs/evaluation.md`` lists the fields)."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from spade_gym.errors import PoolError
from spade_gym.evaluation.question import LETTERS, Case, Kind, Question
from spade_gym.evaluation.question_suite import QuestionSuite
from spade_gym.evaluation.suite import SuiteError, Task
from spade_gym.plain_file import read_text, shown
from spade_gym.storable import storable

_MAX_BYTES = 1 << 28
#: Kinds that a file may hold, with the fields of each beside the common ones.
_FIELDS: dict[Kind, tuple[str, ...]] = {
    "math": ("answer",),
    "exact": ("answer",),
    "choice": ("answer", "choices", "shuffle"),
    "code": ("tests", "cases", "seconds"),
}
_COMMON = ("id", "kind", "group", "question", "meta")
_MOST_SECONDS = 600
#: Stream of the evaluation's seed that orders choices.
_SHUFFLE = 41


def read_question_file(path: Path, *, tasks: int | None = None, seed: int = 0) -> QuestionSuite:
    """Read a suite.

    Args:
        path: The file.
        tasks: Only the first so many questions; absent: all.
        seed: Shuffles the choices: the same order for all samples of a question and for every model.

    Raises:
        SuiteError: The file cannot be read, or a line is not a question; the message names the line.
    """
    try:
        text = read_text(path, max_bytes=_MAX_BYTES, follow=True)
    except PoolError as error:
        raise SuiteError(f"the suite {error}") from error
    questions: list[Question] = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip() and (tasks is None or len(questions) < tasks):
            try:
                questions.append(_question(json.loads(line), number, seed))
            except (ValueError, RecursionError) as error:
                raise SuiteError(f"{path}, line {number}: {error}") from error
    return QuestionSuite(questions, name=path.stem, described={"kind": "file"})


def _question(row: Any, number: int, seed: int) -> Question:
    """Read one line.

    Raises:
        ValueError: It is no question; the message says what is wrong with which field.
    """
    if not isinstance(row, Mapping):
        raise ValueError(f"a question is a JSON object, got {shown(row)}")
    kind = _kind(row)
    _check_fields(row, kind)
    name = str(_scalar(row, "id", str(number)))
    task = Task(name, _text(row, "group", kind), name)
    text = _text(row, "question")
    if kind == "choice":
        choices, letter = _choices(row, seed, number)
        return Question(task=task, kind=kind, text=text, choices=choices, answer=letter)
    if kind == "code":
        return Question(task=task, kind=kind, text=text, **_tests(row))
    return Question(task=task, kind=kind, text=text, answer=str(_scalar(row, "answer")).strip())


def _kind(row: Mapping[str, Any]) -> Kind:
    """The kind that is given, or that the fields tell."""
    told = row.get("kind")
    if told is None:
        return "choice" if "choices" in row else "code" if "tests" in row or "cases" in row else "math"
    for kind in _FIELDS:
        if told == kind:
            return kind
    raise ValueError(f"kind must be one of {', '.join(_FIELDS)}, got {shown(told)}")


def _check_fields(row: Mapping[str, Any], kind: Kind) -> None:
    known = (*_COMMON, *_FIELDS[kind])
    for name in row:
        if name not in known:
            every = [*_COMMON, *(field for fields in _FIELDS.values() for field in fields)]
            near = difflib.get_close_matches(name, every, n=1)
            ask = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(
                f"a question of the kind {kind} has no field {shown(name)}{ask} It has {', '.join(known)}; anything "
                "else goes into meta"
            )


def _text(row: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = row.get(name, default)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{name} must be a text that is not empty, got {shown(value)}")
    return storable(value)


def _scalar(row: Mapping[str, Any], name: str, default: str | None = None) -> str | int | float:
    value = row.get(name, default)
    if isinstance(value, bool) or not isinstance(value, str | int | float) or not str(value).strip():
        raise ValueError(f"{name} must be a text or a number, got {shown(value)}")
    return storable(value) if isinstance(value, str) else value


def _choices(row: Mapping[str, Any], seed: int, number: int) -> tuple[tuple[str, ...], str]:
    """The choices as they are shown, and the letter of the right one."""
    choices = row["choices"]
    if not isinstance(choices, list) or not 2 <= len(choices) <= len(LETTERS):
        raise ValueError(f"choices must be a list of 2 to {len(LETTERS)} texts, got {shown(choices)}")
    texts = [_text({"choices": choice}, "choices") for choice in choices]
    place = _place(row.get("answer"), texts)
    shuffle = row.get("shuffle", True)
    if not isinstance(shuffle, bool):
        raise ValueError(f"shuffle must be true or false, got {shown(shuffle)}")
    order = list(range(len(texts)))
    if shuffle:
        order = (
            np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_SHUFFLE, number)))
            .permutation(order)
            .tolist()
        )
    return tuple(texts[index] for index in order), LETTERS[order.index(place)]


def _place(answer: Any, texts: list[str]) -> int:
    """Which choice is right: given by its number, counted from 0, or by its text."""
    if isinstance(answer, int) and not isinstance(answer, bool):
        if not 0 <= answer < len(texts):
            raise ValueError(
                f"answer must be the number of a choice from 0 to {len(texts) - 1}, or its text, got {answer}"
            )
        return answer
    if texts.count(answer) != 1:
        raise ValueError(f"answer must be the number of a choice, counted from 0, or its text, got {shown(answer)}")
    return texts.index(answer)


def _tests(row: Mapping[str, Any]) -> dict[str, Any]:
    """How code is tested."""
    if ("tests" in row) == ("cases" in row):
        raise ValueError("code is tested by either tests (Python) or cases (inputs and outputs); give one of them")
    seconds = row.get("seconds", 10.0)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= _MOST_SECONDS:
        raise ValueError(f"seconds must be a number above 0 and at most {_MOST_SECONDS}, got {shown(seconds)}")
    if "tests" in row:
        tests = row["tests"]
        tests = _text({"tests": "\n".join(tests) if _is_texts(tests) else tests}, "tests")
        try:
            compile(tests, "tests", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ValueError(f"tests are no Python: {error}") from error
        return {"tests": tests, "seconds": float(seconds)}
    cases = row["cases"]
    if not isinstance(cases, list) or not cases:
        raise ValueError(f"cases must be a list that is not empty, got {shown(cases)}")
    return {"cases": tuple(_case(case) for case in cases), "seconds": float(seconds)}


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _case(case: Any) -> Case:
    if not isinstance(case, Mapping) or set(case) != {"input", "output"} or not _is_texts(list(case.values())):
        raise ValueError(f'a case is {{"input": "…", "output": "…"}}, got {shown(case)}')
    return Case(storable(case["input"]), storable(case["output"]))
