"""The Berkeley Function-Calling Leaderboard, single-turn categories, through its own package ``bfcl-eval``.

Questions, tool schemas, expected calls and the checker are the package's (version 4 of the leaderboard).
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from typing import Any

from spade_gym.evaluation.bfcl_calls import package_part
from spade_gym.evaluation.question import Question
from spade_gym.evaluation.question_suite import QuestionSuite
from spade_gym.evaluation.suite import SuiteError, Task
from spade_gym.models.base import Message

#: Categories of one turn whose functions are Python's.
CATEGORIES = (
    "simple_python", "multiple", "parallel", "parallel_multiple", "live_simple", "live_multiple", "live_parallel",
    "live_parallel_multiple", "irrelevance", "live_irrelevance", "live_relevance",
)  # fmt: skip


def bfcl_suite(categories: Sequence[str] = (), *, tasks: int | None = None) -> QuestionSuite:
    """Return the questions of some categories.

    Args:
        categories: Some of ``CATEGORIES``; empty for all.
        tasks: Of each category, the first so many; absent: all.

    Raises:
        SuiteError: A category is unknown, or the package is missing or cannot be imported.
    """
    chosen = tuple(categories) or CATEGORIES
    if unknown := next((name for name in chosen if name not in CATEGORIES), None):
        raise SuiteError(f"there is no category {unknown!r} of one turn; there are {', '.join(CATEGORIES)}")
    questions = [question for category in chosen for question in _questions(category, tasks)]
    version = importlib.metadata.version("bfcl-eval")
    return QuestionSuite(
        questions, name="bfcl", described={"kind": "bfcl", "version": version, "categories": list(chosen)}
    )


def _questions(category: str, tasks: int | None) -> list[Question]:
    utils = package_part("bfcl_eval.utils")
    entries = utils.load_dataset_entry(category)[:tasks]
    expects_calls = "relevance" not in category
    wanted = {row["id"]: row for row in utils.load_ground_truth_entry(category)} if expects_calls else {}
    convert, types, style = _converter()
    found = []
    for entry in entries:
        (messages,) = entry["question"]
        *before, last = [Message(message["role"], message["content"]) for message in messages]
        tools = [tool if "function" in tool else {"type": "function", "function": tool}
                 for tool in convert(entry["function"], types, style)]  # fmt: skip
        expected: dict[str, Any] = {"category": category}
        if expects_calls:
            expected |= {"functions": entry["function"], "calls": wanted[entry["id"]]["ground_truth"]}
        if last.role != "user":
            before, last = [*before, last], Message("user", "")
        found.append(
            Question(
                task=Task(entry["id"], category, entry["id"]), kind="tools", text=last.content, before=tuple(before),
                functions=tuple(tools), expected=expected,
            )
        )  # fmt: skip
    return found


def _converter() -> tuple[Any, Any, Any]:
    """The package's way to OpenAI's form of schemas: a function, and two of its arguments."""
    return (
        package_part("bfcl_eval.model_handler.utils").convert_to_tool,
        package_part("bfcl_eval.constants.type_mappings").GORILLA_TO_OPENAPI,
        package_part("bfcl_eval.constants.enums").ModelStyle.OPENAI_COMPLETIONS,
    )
