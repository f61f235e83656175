"""Requests, replies and designers for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spade_gym.designer.request import DesignReply, DesignRequest


def make_request(key: str = "design/0/0/0", **facts: object) -> DesignRequest:
    values = {"setting": "multi_turn", "skill": "Optimization", "difficulty": "easy", "seed": 0, **facts}
    return DesignRequest(key, **values)  # type: ignore[arg-type]


def game(name: str, body: str = "", number: int = 3) -> str:
    """A reply with a small game that nobody plays."""
    return f'''Here it is.
```python
class {name}Env:
    """A game."""

    def __init__(self, max_turns={number}, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        {body or "self.turn = 0"}
        return "Say a word.", {{}}

    def step(self, action):
        return "No.", 0.0, True, False, {{}}

    def solution(self):
        return "word"
```
'''


class ScriptedDesigner:
    """Says what a function makes of each request, and remembers what it was asked."""

    name = "scripted"

    def __init__(self, say: Callable[[DesignRequest], str | DesignReply]) -> None:
        self.rounds: list[list[str]] = []
        self._say = say

    def write(self, requests: Sequence[DesignRequest]) -> list[DesignReply]:
        self.rounds.append([request.key for request in requests])
        said = [(request, self._say(request)) for request in requests]
        return [text if isinstance(text, DesignReply) else DesignReply(request, text) for request, text in said]
