"""Programs and orders that the tests of rollouts play."""

from __future__ import annotations

from collections.abc import Sequence

from conftest import make_program

from spade_gym.curriculum.task import Arm
from spade_gym.programs.program import Program
from spade_gym.rollout.play import PlayOrder

#: A game that reads boxes: it is won by boxing the number that its observation names, after as many tries as needed.
GUESS = r"""
import re


class GuessEnv:
    def __init__(self, max_turns=40, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        self.turn = 0
        self.goal = seed % 5
        return f"Guess {self.goal}.", {}

    def step(self, action):
        self.turn += 1
        found = re.fullmatch(r"\\boxed\{(.*)\}", action)
        if found is None:
            return f"No box in {action!r}.", 0.0, False, self.turn >= self.max_turns, {}
        if found[1] == "crash":
            raise ValueError("told to")
        if found[1] == "hang":
            while True:
                pass
        if found[1] == "half":
            return "Half of it.", 0.5, False, False, {}
        won = found[1] == str(self.goal)
        return ("Right." if won else f"Wrong: {found[1]}."), float(won), won, self.turn >= self.max_turns, {}
"""

#: A shop with two tools and one request: set the price of pears to 3.
SHOP = """
class ShopEnv(ToolUseBaseEnv):
    def reset(self, seed=None):
        self._state = {"pear": 1, "plum": seed}
        text = {"type": "string"}
        self._tools = {
            "get_price": {"description": "Price.", "parameters": {"properties": {"item": text}, "required": ["item"]}},
            "set_price": {"parameters": {"properties": {"item": text, "price": {"type": "integer"}}}},
        }
        self._user_messages = ["Sell pears for 3."]
        self._message_criteria = [lambda state: state["pear"] == 3]
        return self._user_messages[0], {}

    def tool_get_price(self, item):
        return str(self._state.get(item))

    def tool_set_price(self, item, price=0):
        self._state[item] = price
        return "changed"
"""


def guess(**manifest: object) -> Program:
    return make_program(GUESS, "GuessEnv", hint="It is the number you read.", **manifest)


def shop() -> Program:
    return make_program(SHOP, "ShopEnv", setting="tool_use", hint="Set the price.")


def orders_of(program: Program, seeds: Sequence[int], *, arm: Arm = "plain", environment: int = 0) -> list[PlayOrder]:
    return [
        PlayOrder(f"play/0/{environment}/{arm}/{number}", program, seed, arm, sampling_seed=1000 + number)
        for number, seed in enumerate(seeds)
    ]
