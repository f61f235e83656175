import random
from collections import namedtuple

Train = namedtuple("Train", "cargo cow gate")
GOALS = {"coal": "foundry", "fish": "market", "timber": "sawmill"}
ORDERS = ("blow whistle", "close gate", "turn foundry", "turn market", "turn sawmill", "show green")


class SignalBoxEnv:
    """Route four goods trains through a country junction without an accident."""

    def __init__(self, max_turns=12, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        rng = random.Random(seed)
        while True:
            self.trains = [Train(rng.choice(list(GOALS)), rng.random() < 0.5, rng.random() < 0.5) for _ in range(4)]
            self.blades = rng.choice(list(GOALS.values()))
            self.price = len(self._perfect())
            if 8 <= self.price <= 10:
                break
        self.index, self.turn = 0, 0
        self._arrive()
        rules = [
            "You work a lonely signal box. Coal belongs to the foundry, fish to the market, timber to the sawmill.",
            "Beasts must be whistled off the rails before the blades can be turned. Green needs blades towards the "
            "goal, empty rails and a closed gate (the barrier lowered). A refused order only costs a turn.",
            f"Send four trains on within {self.max_turns} turns; each order that was needed pays the same.",
            "Orders: " + ", ".join(f"\\boxed{{{order}}}" for order in ORDERS) + ".",
            self._scene(),
        ]
        return "\n".join(rules), {}

    def _perfect(self):
        blades, orders = self.blades, []
        for train in self.trains:
            goal = GOALS[train.cargo]
            orders += ["blow whistle"] * train.cow + [f"turn {goal}"] * (goal != blades)
            orders += ["close gate"] * train.gate + ["show green"]
            blades = goal
        return orders

    def _arrive(self):
        self.train = self.trains[self.index]
        self.owed = {"show green"}
        if self.blades != GOALS[self.train.cargo]:
            self.owed.add("turn " + GOALS[self.train.cargo])

    def _scene(self):
        train = self.train
        rails = "cow" if train.cow else "free"
        return f"Load: {train.cargo}. Blades: {self.blades}. Rails: {rails}. Barrier: {'up' if train.gate else 'down'}."

    def _obey(self, order):
        """Carry out one order and say whether it was accepted and whether it was needed."""
        train = self.train
        match order.split():
            case ["blow", "whistle"]:
                self.train = train._replace(cow=False)
                return True, train.cow
            case ["close", "gate"]:
                self.train = train._replace(gate=False)
                return True, train.gate
            case ["turn", ("foundry" | "market" | "sawmill") as place] if not train.cow:
                self.blades = place
            case ["show", "green"] if not (train.cow or train.gate or self.blades != GOALS[train.cargo]):
                self.index += 1
            case _:
                return False, False
        needed = order in self.owed
        self.owed.discard(order)
        return True, needed

    def step(self, action):
        if self.index == 4 or self.turn >= self.max_turns:
            return "The night has come.", 0.0, self.index == 4, self.index < 4, {}
        self.turn += 1
        inner = action.split("\\boxed{")[-1].split("}")[0]
        before = self.index
        accepted, needed = self._obey(" ".join(inner.lower().split()))
        reward = needed / self.price
        if self.index == 4:
            return "The fourth train rolls on. Well done.", reward, True, False, {}
        if self.index > before:
            self._arrive()
        return ("" if accepted else "Refused. ") + self._scene(), reward, False, self.turn >= self.max_turns, {}

    def solution(self):
        return "\n".join(self._perfect())
