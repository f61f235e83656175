import random
import re
from itertools import combinations
from typing import NamedTuple


class Firing(NamedTuple):
    hours: int
    deadline: int
    pay: int


class KilnScheduleEnv:
    """Choose which firings a single kiln runs before their deadlines, and in which order."""

    def __init__(self, max_turns=2, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.plan = ()
        while len(self.plan) not in (3, 4):
            self.firings = {}
            for name in "ABCDEF":
                hours = rng.randint(1, 5)
                self.firings[name] = Firing(hours, rng.randint(hours, hours + 8), rng.randint(5, 40))
            self.plan = self._optimum()
        self.best_grade = 0.0
        self.attempts = 0
        rows = "\n".join(
            f"  {name}: {f.hours} h, must be finished by hour {f.deadline}, pays {f.pay}"
            for name, f in self.firings.items()
        )
        return (
            "A potter owns a single kiln that can fire one order at a time, without interruption, starting at hour 0.\n"
            f"{rows}\nOrders that are not finished by their deadline pay nothing and may not be started. Choose "
            "orders and their sequence for the largest total pay; the best choice has three or four.\n"
            f"Answer with the letters in firing order, as in \\boxed{{X,Y,Z}}. You have {self.max_turns} attempts."
        ), {}

    def _pay(self, order):
        """Total pay of a sequence, or None if a deadline is missed, a letter repeats or is unknown."""
        if len(set(order)) < len(order) or not set(order) <= set(self.firings):
            return None
        clock = 0
        for name in order:
            clock += self.firings[name].hours
            if clock > self.firings[name].deadline:
                return None
        return sum(self.firings[name].pay for name in order)

    def _optimum(self):
        # A set of orders that can be fired at all can be fired by deadline, so sets are enough.
        by_deadline = sorted(self.firings, key=lambda name: self.firings[name].deadline)
        chosen = (order for size in range(1, 7) for order in combinations(by_deadline, size))
        return max(chosen, key=lambda order: self._pay(order) or 0)

    def step(self, action):
        if self.best_grade == 1.0 or self.attempts >= self.max_turns:
            return "The kiln is lit.", 0.0, True, False, {}
        self.attempts += 1
        last = self.attempts == self.max_turns
        match = re.search(r"\\boxed\{([^{}]{1,40})\}", action)
        pay = self._pay(re.findall(r"\w+", match.group(1).upper())) if match else None
        if not pay:
            return "That schedule cannot be fired.", 0.0, last, False, {}
        top = self._pay(self.plan)
        grade = 1.0 if pay == top else 0.5 * (pay / top) ** 2
        gain = max(0.0, grade - self.best_grade)
        self.best_grade += gain
        verdict = "the best there is" if pay == top else "not the best"
        return f"This schedule earns {pay}, {verdict}.", gain, last or pay == top, False, {}

    def solution(self):
        return ",".join(self.plan)
