import heapq
import random


class OrchardEnv:
    """Pick one of five trees a day; what a tree gives shrinks by an unknown amount with every picking."""

    def __init__(self, max_turns=10, trees=5, **kwargs):
        self.max_turns = max_turns
        self.trees = trees

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.plan = []
        while len(set(self.plan)) < 4:
            self.yields = [self._decline(rng) for _ in range(self.trees)]
            self.plan = self._harvest()
        self.days = self.max_turns
        signs = ", ".join(f"tree {number} {amounts[0]} kg" for number, amounts in enumerate(self.yields, 1))
        return (
            f"You have {self.days} days and {self.trees} apple trees. Every day pick one, such as \\boxed{{pick 2}}. "
            "A tree gives less with every picking, by 2 to 14 kg; its next amount is told once, when you have picked "
            f"it. Each day on which no other tree would have given more is worth {1 / self.max_turns:g}; "
            f"you win if every day is of that kind.\nNow: {signs}."
        ), {}

    def _decline(self, rng):
        amounts = [rng.randint(12, 40)]
        for _ in range(self.max_turns):
            amounts.append(max(0, amounts[-1] - rng.randint(2, 14)))
        return amounts

    def _harvest(self):
        heap = [(-amounts[0], tree, 0) for tree, amounts in enumerate(self.yields)]
        heapq.heapify(heap)
        plan = []
        for _ in range(self.max_turns):
            _, tree, depth = heap[0]
            plan.append(tree)
            heapq.heapreplace(heap, (-self.yields[tree][depth + 1], tree, depth + 1))
        return plan

    def step(self, action):
        if not self.days:
            return "The harvest is over.", 0.0, True, False, {}
        self.days -= 1
        _, verb, rest = action.partition("pick ")
        word = rest.rstrip(" }\n")
        if not verb or word not in [str(number) for number in range(1, self.trees + 1)]:
            return f"There is no such tree; {self.days} days left.", 0.0, self.days == 0, False, {}
        most = max(amounts[0] for amounts in self.yields)
        amounts = self.yields[int(word) - 1]
        got = amounts.pop(0)
        text = f"Tree {word} gives {got} kg and would give {amounts[0]} kg next. {self.days} days left."
        return text, (got == most) / self.max_turns, self.days == 0, False, {}

    def solution(self):
        return "\n".join(f"pick {tree + 1}" for tree in self.plan)
