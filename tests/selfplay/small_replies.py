"""Replies with small programs that pass every check quickly, for whole cycles in tests."""

from __future__ import annotations

import json
from pathlib import Path

_REPLY = """Here is a {what} game.

```python
import random


class {name}Env:
    def __init__(self, max_turns=3, **kwargs):
        self.max_turns = max_turns
        self.turn = 0

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.left, self.right = rng.randint(100, 999), rng.randint(100, 999)
        self.turn = 0
        return f"What is the {what} of {{self.left}} and {{self.right}}? Answer with a whole number in a box.", {{}}

    def answer(self):
        return {expression}

    def step(self, action):
        self.turn += 1
        text = action.replace("\\\\boxed", "").strip("{{}} ")
        if text == str(self.answer()):
            return "Right.", 1.0, True, False, {{}}
        over = self.turn >= self.max_turns
        return "That is wrong." if over else "That is wrong, try again.", 0.0, over, False, {{}}

    def solution(self):
        return f"\\\\boxed{{{{{{self.answer()}}}}}}"
```
"""

GAMES = {
    "sum": ("Sum", "self.left + self.right", "Mathematical Reasoning"),
    "product": ("Product", "self.left * self.right", "Logical Deduction"),
    "difference": ("Difference", "abs(self.left - self.right)", "Spatial Reasoning"),
    "remainder": ("Remainder", "(self.left * 7 + self.right) % 1009", "Pattern Recognition"),
    "maximum": ("Maximum", "max(self.left, self.right) * 3", "Optimization"),
    "minimum": ("Minimum", "min(self.left, self.right) * 3 + 1", "Causal Inference"),
    "blend": ("Blend", "self.left * 2 + self.right * 5", "Mathematical Reasoning"),
    "fold": ("Fold", "self.left ^ self.right", "Logical Deduction"),
}


def reply_of(what: str) -> str:
    name, expression, _ = GAMES[what]
    return _REPLY.format(what=what, name=name, expression=expression)


def write_replies(folder: Path, *, flawed: int = 0) -> Path:
    """Write the replies with their index; the first ``flawed`` are followed by ones that cannot be read."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for number, (what, (_, _, skill)) in enumerate(GAMES.items()):
        (folder / f"{what}.md").write_text(reply_of(what))
        rows.append({"file": f"{what}.md", "setting": "single_turn", "skill": skill})
        if number < flawed:
            (folder / f"{what}_flawed.md").write_text("I would rather not.")
            rows.append({"file": f"{what}_flawed.md", "setting": "single_turn", "skill": skill})
    (folder / "index.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder
