"""Are the tool calls of a reply those that BFCL expects? By the checker of its package ``bfcl-eval``.

A reply is read by this project's parser of tool calls; the checker compares values and evaluates nothing that a model
wrote, so it runs in this process.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from spade_gym.evaluation.question import Grade, Question, right, wrong
from spade_gym.evaluation.suite import SuiteError
from spade_gym.sandbox.tool_calls import parse_tool_calls

_REMEDY = "pip install bfcl-eval soundfile   (an environment of its own is wise: it pins NumPy 1.26 and much else)"
#: An entry of the package's table of models whose names of functions have ``_`` for ``.``, as those of OpenAI have.
#: An entry of the package's table of models whose names of functions have ``_`` for ``.``, as those of OpenAI have.
_LIKE = "gpt-4.1-2025-04-14-FC"


def grade_calls(question: Question, reply: str) -> Grade:
    """Grade the tool calls of a reply by the package's checker.

    A call that cannot be read is wrong; of irrelevant functions any call that can be read is.
    """
    calls = parse_tool_calls(reply)
    readable = [{call.name: call.arguments} for call in calls if call.arguments is not None]
    shown, category = repr(readable) if calls else "", question.expected["category"]
    if "irrelevance" in category:
        return wrong("called a function that does not help", shown) if readable else right(shown)
    if len(readable) < len(calls):
        return wrong(next(call.error for call in calls if call.error is not None), shown)
    if not readable:
        return wrong("the reply calls no function")
    if category == "live_relevance":
        return right(shown)
    try:
        verdict = package_part("bfcl_eval.eval_checker.ast_eval.ast_checker").ast_checker(
            question.expected["functions"], readable, question.expected["calls"],
            package_part("bfcl_eval.constants.enums").Language.PYTHON, category, _LIKE,
        )  # fmt: skip
    except Exception as error:  # the package's checker may raise anything on what it does not expect
        return Grade(None, False, f"the checker of bfcl-eval failed: {type(error).__name__}: {error}"[:500], shown)
    return right(shown) if verdict["valid"] else wrong(str(verdict["error"])[:500], shown)


def package_part(module: str) -> Any:
    """A module of the package.

    Raises:
        SuiteError: It is not installed, or not all that it needs.
    """
    if importlib.util.find_spec("bfcl_eval") is None:
        raise SuiteError(f"BFCL needs the package bfcl-eval: {_REMEDY}")
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SuiteError(f"the package bfcl-eval cannot be imported ({error}): {_REMEDY}") from error
