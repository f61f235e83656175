import random
import re


class HiddenPolynomialEnv:
    """Recover the four digits of a cubic from three of its values."""

    DEGREE = 3
    TOP = 6

    def __init__(self, max_turns=7, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.digits = [rng.randint(0, self.TOP) for _ in range(self.DEGREE)] + [rng.randint(1, self.TOP)]
        self.settled = {}
        self.values_left = self.max_turns - self.DEGREE - 1
        self.turns_left = self.max_turns
        form = " + ".join(f"c{k} * x^{k}" for k in range(self.DEGREE, -1, -1))
        lines = [
            f"A machine computes P(x) = {form}, where every coefficient is a whole number from 0 to {self.TOP}.",
            f"\\boxed{{value 2}} shows P(2); x may be 1, 2, 3, 4 or 5, and you may ask {self.values_left} times.",
            "\\boxed{coefficient 3 equals 0} fixes c3 for good; each of the four is worth a quarter if it is right.",
            f"You have {self.max_turns} turns in all.",
        ]
        return "\n".join(lines), {}

    def _evaluate(self, x):
        total = 0
        for digit in reversed(self.digits):
            total = total * x + digit
        return total

    def step(self, action):
        if not self.turns_left or len(self.settled) > self.DEGREE:
            complete = len(self.settled) > self.DEGREE
            return "The machine is off.", 0.0, complete, not complete, {}
        self.turns_left -= 1
        gain = 0.0
        if question := re.search(r"\bvalue ([1-5])\b", action):
            if self.values_left:
                self.values_left -= 1
                message = f"P({question[1]}) = {self._evaluate(int(question[1]))}."
            else:
                message = "No more values."
        elif claim := re.search(r"\bcoefficient ([0-3]) equals ([0-6])\b", action):
            index, digit = int(claim[1]), int(claim[2])
            if index in self.settled:
                message = f"c{index} was fixed before."
            else:
                self.settled[index] = digit
                gain = 0.25 * (digit == self.digits[index])
                message = f"c{index} is {'right' if gain else 'wrong'}."
        else:
            message = "Ask for a value or fix a coefficient."
        over = len(self.settled) > self.DEGREE
        return f"{message} {self.turns_left} turns left.", gain, over, not over and not self.turns_left, {}

    def solution(self):
        asked = [f"value {x}" for x in (3, 4, 5)]
        return "\n".join(asked + [f"coefficient {k} equals {digit}" for k, digit in enumerate(self.digits)])
