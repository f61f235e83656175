"""A data set of Reasoning Gym: asks its questions and grades answers by its own scorer. Runs in the sandbox."""

import json
from typing import Any

import reasoning_gym


class ReasoningGymEnv:
    """One instance is one item of the data set; its number is the seed."""

    def __init__(self, dataset: str = "", config: dict[str, Any] | None = None, max_turns: int = 1) -> None:
        self.max_turns = max_turns
        self._items = reasoning_gym.create_dataset(dataset, **(config or {}))
        self._item: dict[str, Any] = {}

    def reset(self, seed: int | None = None) -> tuple[str, dict[str, Any]]:
        """Ask the item of that number."""
        self._item = self._items[seed]
        return str(self._item["question"]), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Score an answer, a JSON text."""
        return "", float(self._items.score_answer(json.loads(action), self._item)), True, False, {}
