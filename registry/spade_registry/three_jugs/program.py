import random
from collections import deque
from itertools import permutations, product

JUGS = ("large", "middle", "small")
SIZES = ((12, 7, 5), (10, 7, 3), (11, 7, 4), (13, 8, 5), (14, 9, 5), (15, 8, 7), (16, 9, 7), (13, 9, 4))


def pour(state, sizes, source, target):
    amount = min(state[source], sizes[target] - state[target])
    after = list(state)
    after[source] -= amount
    after[target] += amount
    return tuple(after)


def explore(state, sizes):
    """Shortest pourings from a state to every state it can reach."""
    routes, frontier = {state: ()}, deque([state])
    while frontier:
        here = frontier.popleft()
        for pair in permutations(range(3), 2):
            there = pour(here, sizes, *pair)
            if there not in routes:
                routes[there] = (*routes[here], pair)
                frontier.append(there)
    return routes


class ThreeJugsEnv:
    """Measure two amounts, one after the other, by decanting between three unmarked jugs."""

    def __init__(self, max_turns=18, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        rng = random.Random(seed)
        plans = []
        while not plans:
            self.sizes = rng.choice(SIZES)
            self.state = (self.sizes[0], 0, 0)
            first = explore(self.state, self.sizes)
            jug, litres = rng.randrange(3), rng.randint(1, 8)
            plan, middle = min(
                ((p, s) for s, p in first.items() if s[jug] == litres), default=((), None), key=self._key
            )
            if len(plan) < 4:
                continue
            later = explore(middle, self.sizes).items()
            for other, amount in product(range(3), range(1, 9)):
                ways = ((p, s) for s, p in later if s[other] == amount and other != jug)
                extra, _ = min(ways, default=((), None), key=self._key)
                if len(extra) >= 4 and len(plan + extra) <= self.max_turns - 3:
                    plans.append((plan + extra, [(jug, litres), (other, amount)]))
        self.plan, self.goals = rng.choice(plans)
        self.reached = self.turn = 0
        sizes = ", ".join(f"{name} {size}" for name, size in zip(JUGS, self.sizes, strict=True))
        tasks = ", then ".join(f"exactly {litres} litres in the {JUGS[jug]} jug" for jug, litres in self.goals)
        return (
            f"Three unmarked jugs hold at most: {sizes} litres. The large one is full of wine, the others are empty. "
            "\\boxed{pour large small} pours from the first jug named into the second until one is empty or the other "
            f"is full. Produce {tasks}. Each is worth one half, in this order, within {self.max_turns} pourings.\n"
        ) + self._shelf(), {}

    @staticmethod
    def _key(route):
        return len(route[0]), route[0]

    def _shelf(self):
        levels = ", ".join(f"{name} {litres}" for name, litres in zip(JUGS, self.state, strict=True))
        jug, litres = self.goals[self.reached]
        return f"Now: {levels}. Wanted: {litres} in the {JUGS[jug]} jug."

    def step(self, action):
        if self.reached == 2 or self.turn >= self.max_turns:
            return "The cellar is closed.", 0.0, self.reached == 2, self.reached < 2, {}
        self.turn += 1
        verb, *names = action.lower().replace("\\boxed{", " ").replace("}", " ").split() or [""]
        if verb != "pour" or len(names) != 2 or names[0] == names[1] or not set(names) <= set(JUGS):
            return f"Nothing is poured. {self._shelf()}", 0.0, False, self.turn >= self.max_turns, {}
        self.state = pour(self.state, self.sizes, JUGS.index(names[0]), JUGS.index(names[1]))
        jug, litres = self.goals[self.reached]
        if self.state[jug] != litres:
            return self._shelf(), 0.0, False, self.turn >= self.max_turns, {}
        self.reached += 1
        if self.reached == 2:
            return "Both amounts are measured.", 0.5, True, False, {}
        return f"The first amount is right. {self._shelf()}", 0.5, False, self.turn >= self.max_turns, {}

    def solution(self):
        return "\n".join(f"pour {JUGS[a]} {JUGS[b]}" for a, b in self.plan)
