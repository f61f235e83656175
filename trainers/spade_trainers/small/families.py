"""Programs for the warm start: a few families whose constants set the difficulty.

A family writes the whole text of a program, as a designer would reply, from a handful of constants. The warm start
learns to write such texts token by token; nothing here is used once the small model writes its own.

Most are games of one answer: the player gets a list of digits and answers with another. How long the lists are is the
main difficulty. A wrong answer earns half of the share of its leading right items, so that lists that are still too
long to be won teach something too. Two are played in several turns: a walk on a grid, and a lock whose number is found
by halving.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

#: Things that the programs are about; one word each, so that a document of the corpus can name them.
THINGS = (
    "coins", "gems", "keys", "maps", "lamps", "rings", "bells", "seeds", "tiles", "cards", "books", "shells",
    "stones", "beads", "leaves", "ropes", "masks", "drums", "kites", "boats",
)  # fmt: skip

#: What a list may be made into, as the observation calls it; and the expression that makes it.
OPERATIONS = {
    "reverse": "items[::-1]",
    "sort up": "sorted(items)",
    "sort down": "sorted(items, reverse=True)",
    "rotate left": "items[1:] + items[:1]",
    "rotate right": "items[-1:] + items[:-1]",
    "swap ends": "items[-1:] + items[1:-1] + items[:1]",
}

_TEXT = """import random
import re


class {name}Env:
    def __init__(self, max_turns=1, **kwargs):
        self.max_turns = max_turns

    def change(self, items):
{change}

    def reset(self, seed=None):
        rng = random.Random(seed)
        items = {draw}
        self.goal = self.change(items)
        self.over = False
        text = "{task}"
{example}        return text + " ".join(map(str, items)), {{}}

    def step(self, action):
        if self.over:
            return "over", 0.0, True, False, {{}}
        self.over = True
        found = re.search(r"\\\\boxed\\{{([0-9 ]{{1,99}})\\}}", action)
        said = found.group(1).split() if found else []
        goal = [str(item) for item in self.goal]
        if said == goal:
            return "right", 1.0, True, False, {{}}
        same = 0
        while same < min(len(said), len(goal)) and said[same] == goal[same]:
            same += 1
        return "wrong", 0.5 * same / (len(goal) + 1), False, True, {{}}

    def solution(self):
        return " ".join(str(item) for item in self.goal)
"""


@dataclass(frozen=True, slots=True)
class Made:
    """A program of a family.

    Attributes:
        family: Its name.
        skill: That it trains.
        thing: What it is about.
        length: Items of its lists: the main difficulty.
        source: Its text.
        hint: What a player may be told about it.
        halving: The last number of a lock, where a player finds the answer by halving; 0 elsewhere.
    """

    family: str
    skill: str
    thing: str
    length: int
    source: str
    hint: str
    halving: int = 0


def write_order(rng: np.random.Generator, thing: str, length: int) -> Made:
    """A list to be put into a named order."""
    name = str(rng.choice(list(OPERATIONS)))
    digits = int(rng.integers(max(6, length), 11))
    source = _program(
        _class_name(thing, rng, ("Order", "Row", "Line")),
        change=f"        return {OPERATIONS[name]}",
        draw=_draw(rng, digits, length),
        task=f"{name} the {thing}: ",
    )
    return Made("order", "Logical Deduction", thing, length, source, name)


def write_sums(rng: np.random.Generator, thing: str, length: int) -> Made:
    """Running sums modulo a number."""
    modulus = int(rng.integers(3, 11))
    source = _program(
        _class_name(thing, rng, ("Sums", "Count", "Total")),
        change=(
            "        total, sums = 0, []\n"
            "        for item in items:\n"
            f"            total = (total + item) % {modulus}\n"
            "            sums.append(total)\n"
            "        return sums"
        ),
        draw=f"[rng.randrange({modulus}) for _ in range({length})]",
        task=f"running sums of the {thing} mod {modulus}: ",
    )
    return Made("sums", "Mathematical Reasoning", thing, length, source, f"add, and keep the rest mod {modulus}")


def write_steps(rng: np.random.Generator, thing: str, length: int) -> Made:
    """Every item moved by the same amount."""
    modulus, step = 10, int(rng.integers(1, 10))
    source = _program(
        _class_name(thing, rng, ("Shift", "Step", "Move")),
        change=f"        return [(item + {step}) % {modulus} for item in items]",
        draw=f"[rng.randrange({modulus}) for _ in range({length})]",
        task=f"add {step} mod {modulus} to the {thing}: ",
    )
    return Made("steps", "Mathematical Reasoning", thing, length, source, f"add {step} to each")


def write_rule(rng: np.random.Generator, thing: str, length: int) -> Made:
    """A hidden rule: one example is shown, and the same is to be done to another list."""
    name = str(rng.choice(list(OPERATIONS)))
    digits = int(rng.integers(max(6, length), 11))
    shown = int(rng.integers(3, 5))
    example = (
        f"        shown = rng.sample(range({digits}), {shown})\n"
        '        text = text + " ".join(map(str, shown)) + " to " + " ".join(map(str, self.change(shown))) + " so "\n'
    )
    source = _program(
        _class_name(thing, rng, ("Rule", "Code", "Secret")),
        change=f"        return {OPERATIONS[name]}",
        draw=_draw(rng, digits, length),
        task=f"same rule for the {thing}: ",
        example=example,
    )
    return Made("rule", "Pattern Recognition", thing, length, source, name)


_WALK = """import random
import re


class {name}Env:
    def __init__(self, max_turns={turns}, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.x, self.gx = rng.sample(range({size}), 2)
        self.y, self.gy = rng.sample(range({size}), 2)
        self.turn = 0
        self.over = False
        return "walk to the {thing} on {size} rows: east north west south " + self.place(), {{}}

    def place(self):
        return f"at {{self.x}} {{self.y}} goal {{self.gx}} {{self.gy}}"

    def step(self, action):
        if self.over:
            return "over", 0.0, True, False, {{}}
        self.turn += 1
        found = re.search(r"\\\\boxed\\{{([a-z]{{1,9}})\\}}", action)
        move = found.group(1) if found else ""
        dx, dy = {{"east": (1, 0), "west": (-1, 0), "north": (0, 1), "south": (0, -1)}}.get(move, (0, 0))
        self.x = min(max(self.x + dx, 0), {last})
        self.y = min(max(self.y + dy, 0), {last})
        self.over = (self.x, self.y) == (self.gx, self.gy)
        if self.over:
            return "there", 1.0, True, False, {{}}
        return self.place(), 0.0, False, self.turn >= self.max_turns, {{}}

    def solution(self):
        across = ["east" if self.gx > self.x else "west"] * abs(self.gx - self.x)
        return "\\n".join(across + ["north" if self.gy > self.y else "south"] * abs(self.gy - self.y))
"""

_LOCK = """import random
import re


class {name}Env:
    def __init__(self, max_turns={turns}, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.number = rng.randint(1, {last})
        self.turn = 0
        self.over = False
        return f"{thing} lock: a number from 1 to {last} in {{self.max_turns}} tries", {{}}

    def step(self, action):
        if self.over:
            return "over", 0.0, True, False, {{}}
        self.turn += 1
        found = re.search(r"\\\\boxed\\{{([0-9]{{1,4}})\\}}", action)
        said = int(found.group(1)) if found else 0
        self.over = said == self.number
        if self.over:
            return "open", 1.0, True, False, {{}}
        text = "higher" if said < self.number else "lower"
        return text, 0.0, False, self.turn >= self.max_turns, {{}}

    def solution(self):
        return str(self.number)
"""


def write_walk(rng: np.random.Generator, thing: str, length: int) -> Made:
    """A walk to a place on a grid; the length is that of its sides."""
    size = length + 1
    name = _class_name(thing, rng, ("Walk", "Path", "Grid"))
    spare = int(rng.integers(0, 2))
    source = _WALK.format(name=name, size=size, last=size - 1, thing=thing, turns=2 * (size - 1) + spare)
    return Made("walk", "Spatial Reasoning", thing, length, source, "go east or west first and then north or south")


def write_lock(rng: np.random.Generator, thing: str, length: int) -> Made:
    """A number that is found by halving what is left; the length is the number of halvings that are needed."""
    last = int(rng.integers(2 ** (length + 1), 2 ** (length + 2) - 1))
    name = _class_name(thing, rng, ("Lock", "Safe", "Vault"))
    source = _LOCK.format(name=name, last=last, thing=thing, turns=last.bit_length() - int(rng.integers(0, 2)))
    return Made("lock", "Optimization", thing, length, source, "say the middle of what is left", last)


#: Families by name.
FAMILIES: dict[str, Callable[[np.random.Generator, str, int], Made]] = {
    "order": write_order,
    "sums": write_sums,
    "steps": write_steps,
    "rule": write_rule,
    "walk": write_walk,
    "lock": write_lock,
}


def _program(name: str, *, change: str, draw: str, task: str, example: str = "") -> str:
    return _TEXT.format(name=name, change=change, draw=draw, task=task, example=example)


def _draw(rng: np.random.Generator, digits: int, length: int) -> str:
    return f"rng.sample(range({digits}), {length})"


def _class_name(thing: str, rng: np.random.Generator, endings: tuple[str, ...]) -> str:
    return thing.capitalize() + str(rng.choice(endings))
