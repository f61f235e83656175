"""Which suite a text means: ``reasoning-gym``, ``bfcl``, a file of questions, programs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spade_gym.evaluation.bfcl import bfcl_suite
from spade_gym.evaluation.program_suite import INSTANCES, ProgramSuite, find_programs
from spade_gym.evaluation.question_file import read_question_file
from spade_gym.evaluation.reasoning_gym import QUESTIONS, reasoning_gym_suite
from spade_gym.evaluation.suite import Suite, SuiteError

_FILES = (".jsonl", ".ndjson")


def open_suite(
    text: str,
    *,
    tasks: int | None = None,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
    isolation: str = "",
) -> Suite:
    """Open a suite.

    Args:
        text: One of

            - ``reasoning-gym``, or ``reasoning-gym:NAME,NAME…`` for some data sets;
            - ``bfcl``, or ``bfcl:CATEGORY,…``;
            - the path of a file of questions that ends in ``.jsonl`` or ``.ndjson``;
            - programs: see ``find_programs``.
        tasks: See ``EvaluationSettings``.
        seed: Of the evaluation.
        options: Settings of data sets of Reasoning Gym, by name.
        isolation: Of graders; "" for the default.

    Raises:
        SpadeError: There is no such suite, or a part of it is missing.
    """
    name, _, rest = text.partition(":")
    parts = [part.strip() for part in rest.split(",") if part.strip()]
    if name == "reasoning-gym":
        return reasoning_gym_suite(parts, tasks=tasks or QUESTIONS, seed=seed, configs=options, isolation=isolation)
    if options:
        raise SuiteError("suite_options are settings of data sets of reasoning-gym; the suite is another one")
    if name == "bfcl":
        return bfcl_suite(parts, tasks=tasks)
    if text.endswith(_FILES):
        return read_question_file(Path(text), tasks=tasks, seed=seed)
    return ProgramSuite(find_programs(text), name=text, instances=tasks or INSTANCES, seed=seed)
