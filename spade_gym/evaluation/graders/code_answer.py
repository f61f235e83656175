"""Whether code that a model wrote does what it should. Runs in a worker of the sandbox, one for each answer."""

import contextlib
import io
import json
import sys
from typing import Any

_MOST_CHARS = 1_000_000


class CodeAnswerEnv:
    """Takes JSON with ``code`` and either ``tests`` or ``inputs``.

    With tests the reward is 1 when neither code nor tests raise. With inputs the observation is a JSON list: what the
    code writes for each, or an error; the host compares.
    """

    def __init__(self, max_turns: int = 1) -> None:
        self.max_turns = max_turns

    def reset(self, seed: int | None = None) -> tuple[str, dict[str, Any]]:
        """Begin."""
        return "", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Run the code."""
        order = json.loads(action)
        if "tests" in order:
            note = _tested(order["code"], order["tests"])
            return note, float(not note), True, False, {}
        written = [_written(order["code"], text) for text in order["inputs"]]
        return json.dumps(written)[:_MOST_CHARS], 0.0, True, False, {}


def _tested(code: str, tests: str) -> str:
    names: dict[str, Any] = {"__name__": "answer"}
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(code, "answer", "exec"), names)
            exec(compile(tests, "tests", "exec"), names)
    except BaseException as error:  # also SystemExit: an answer that ends early has not passed
        return f"{type(error).__name__}: {error}"[:500] or "failed"
    return ""


def _written(code: str, text: str) -> list[str]:
    output = io.StringIO()
    before = sys.stdin
    sys.stdin = io.StringIO(text)
    try:
        with contextlib.redirect_stdout(output):
            exec(compile(code, "answer", "exec"), {"__name__": "__main__"})
    except SystemExit:  # the ordinary end of many scripts
        pass
    except BaseException as error:
        return ["error", f"{type(error).__name__}: {error}"[:500]]
    finally:
        sys.stdin = before
    return ["ok", output.getvalue()]
