"""Whether two mathematical texts mean the same, by math-verify. Runs in a worker of the sandbox."""

import json
from typing import Any

from math_verify import parse, verify


class MathAnswerEnv:
    """Takes a JSON list of the right answer and the one to be graded; the reward is 1 where they are equal."""

    def __init__(self, max_turns: int = 1) -> None:
        self.max_turns = max_turns

    def reset(self, seed: int | None = None) -> tuple[str, dict[str, Any]]:
        """Begin."""
        return "", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Compare."""
        wanted, given = (parse("\\boxed{" + text + "}", parsing_timeout=None) for text in json.loads(action))
        if not wanted:
            raise ValueError("math-verify cannot read the right answer")
        same = verify(wanted, given, timeout_seconds=None, raise_on_error=True)
        return "", float(same), True, False, {}
