import heapq
import random


class OrchardEnv:
    """Pick one of five trees a day; what a tree gives shrinks by an unknown amount with every picking."""

    def __init__(self, max_turns=10, trees=5, **kwargs):
        self.max_turns = max_turns
        self.trees = trees

    def reset(self, seed=None):
        rng = random.Random(seed)
        used = 0
        while used < 4:
            self.yields = [self._decline(rng) for _ in range(self.trees)]
            self.plan, self.most = self._harvest()
            used = len(set(self.plan))
        self.basket = 0
        self.days = self.max_turns
        return (
            f"You have {self.days} days and {self.trees} apple trees. Each day pick one tree, such as \\boxed{{pick 2}}. "
            "A tree never gives more than at its previous picking, and often less; you learn its next amount only "
            "after picking it. Every apple pays alike, and only the best possible harvest wins.\n" + self._signs()
        ), {}

    def _decline(self, rng):
        amounts = [rng.randint(14, 30)]
        for _ in range(self.max_turns):
            amounts.append(max(0, amounts[-1] - rng.randint(0, 9)))
        return amounts

    def _harvest(self):
        heap = [(-amounts[0], tree, 0) for tree, amounts in enumerate(self.yields)]
        heapq.heapify(heap)
        plan, total = [], 0
        for _ in range(self.max_turns):
            amount, tree, depth = heap[0]
            plan.append(tree)
            total -= amount
            heapq.heapreplace(heap, (-self.yields[tree][depth + 1], tree, depth + 1))
        return plan, total

    def _signs(self):
        return "Next amounts: " + ", ".join(f"tree {i} {a[0]} kg" for i, a in enumerate(self.yields, 1)) + "."

    def step(self, action):
        if not self.days:
            return "The harvest is over.", 0.0, True, False, {}
        self.days -= 1
        word = action.split("pick", 1)[-1].strip(" }\n")
        got = 0
        if word in [str(number) for number in range(1, self.trees + 1)] and "pick" in action:
            got = self.yields[int(word) - 1].pop(0)
            news = f"Tree {word} gives {got} kg."
        else:
            news = "There is no such tree, the day is lost."
        self.basket += got
        text = f"{news} {self._signs()} Basket {self.basket} kg, {self.days} days left."
        return text, got / self.most, self.days == 0, False, {}

    def solution(self):
        return "\n".join(f"pick {tree + 1}" for tree in self.plan)
