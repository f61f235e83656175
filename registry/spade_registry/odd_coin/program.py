import math
import random
import re


class OddCoinEnv:
    """Find the false one of twelve coins, and its direction, with a two-pan balance."""

    COINS = 12

    def __init__(self, max_turns=6, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.secret = (rng.randint(1, self.COINS), rng.choice(("heavy", "light")))
        self.cases = self._all_cases()
        self.turn = 0
        self.closed = False
        obs = (
            f"There are {self.COINS} coins numbered 1 to {self.COINS}. One of them is false: it is either heavier or "
            "lighter than the others, and you do not know which.\n"
            "Weigh with \\boxed{weigh 1 2 | 3 4} (the same number of coins on both sides) and finish with "
            f"\\boxed{{answer N heavy}} or \\boxed{{answer N light}}, all within {self.max_turns} turns. What a "
            "weighing tells earns up to 0.4 in all, the right answer earns 0.6."
        )
        return obs, {}

    def _all_cases(self):
        return [(coin, kind) for coin in range(1, self.COINS + 1) for kind in ("heavy", "light")]

    @staticmethod
    def _tilt(case, left, right):
        coin, kind = case
        if coin not in left + right:
            return "level"
        return "left" if (coin in left) == (kind == "heavy") else "right"

    def _filter(self, cases, left, right, result):
        return [case for case in cases if self._tilt(case, left, right) == result]

    def step(self, action):
        if self.closed or self.turn >= self.max_turns:
            return "The game is over.", 0.0, self.closed, not self.closed, {}
        self.turn += 1
        boxed = re.search(r"\\boxed\{([^{}]*)\}", action)
        text = (boxed.group(1) if boxed else action).strip().lower()
        if answer := re.fullmatch(r"answer\s+([0-9]{1,2})\s+(heavy|light)", text):
            self.closed = True
            if (int(answer.group(1)), answer.group(2)) == self.secret:
                # A lucky guess does not earn the share that belongs to weighing.
                return "Correct, that is the false coin.", 0.6, True, False, {}
            return "No, that is not so.", 0.0, True, False, {}
        late = self.turn >= self.max_turns
        weighing = re.fullmatch(r"weigh((?:\s+[0-9]{1,2})+)\s*\|((?:\s*[0-9]{1,2}\b)+)\s*", text)
        if not weighing:
            return "I did not understand. Use 'weigh A B | C D' or 'answer N heavy'.", 0.0, False, late, {}
        left, right = ([int(coin) for coin in side.split()] for side in weighing.groups())
        both = left + right
        if len(left) != len(right) or len(set(both)) < len(both) or not set(both) <= set(range(1, self.COINS + 1)):
            return "Not a legal weighing: equal groups of different coins, please.", 0.0, False, late, {}
        result = self._tilt(self.secret, left, right)
        before = len(self.cases)
        self.cases = self._filter(self.cases, left, right, result)
        gain = 0.4 * math.log(before / len(self.cases)) / math.log(2 * self.COINS)
        news = "The balance stays level." if result == "level" else f"The {result} side goes down."
        return f"Weighing {self.turn}: {news}", gain, False, late, {}

    def solution(self):
        """Take, among sampled weighings, the one with the smallest worst case."""
        rng, cases, lines = random.Random(1), self._all_cases(), []
        while len(cases) > 1:
            plans = []
            for _ in range(150):
                pick = rng.sample(range(1, self.COINS + 1), 2 * rng.randint(1, self.COINS // 2))
                left, right = sorted(pick[::2]), sorted(pick[1::2])
                worst = max(len(self._filter(cases, left, right, way)) for way in ("left", "right", "level"))
                plans.append((worst, left, right))
            _, left, right = min(plans)
            cases = self._filter(cases, left, right, self._tilt(self.secret, left, right))
            lines.append(f"weigh {' '.join(map(str, left))} | {' '.join(map(str, right))}")
        return "\n".join([*lines, "answer {} {}".format(*self.secret)])
