import random
import re

KINDS = ("knight", "knave", "alternator")
NAMES = ("Avo", "Bex", "Cal", "Dun", "Eri", "Fay")


class AlternatorIslandEnv:
    """Interrogate six islanders, some of whom lie every other time, and name the sort of each."""

    def __init__(self, max_turns=16, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        rng = random.Random(seed)
        kinds = ["knight", "knight", "knave", "knave", "alternator", rng.choice(KINDS)]
        rng.shuffle(kinds)
        self.sort = dict(zip(NAMES, kinds, strict=True))
        self.honest_next = {name: rng.random() < 0.5 for name in NAMES}
        self.named = set()
        self.turn = 0
        count = {kind: kinds.count(kind) for kind in KINDS}
        obs = (
            f"Six islanders: {', '.join(NAMES)}. Knights (always answer truly): {count['knight']}. Knaves (always "
            f"falsely): {count['knave']}. Alternators (true and false answers take turns with every question they are "
            f"asked; you do not know how they begin): {count['alternator']}.\n"
            "Ask one person about an islander: \\boxed{ask Avo: is Bex a knave?}. Sums can be asked as well: "
            "\\boxed{ask Avo: is 2+2=5?}. Name a sort with \\boxed{name Bex knave}; each person can be named once and "
            f"is worth one sixth. You have {self.max_turns} turns."
        )
        return obs, {}

    def _reply(self, person, truth):
        honest = self.sort[person] == "knight"
        if self.sort[person] == "alternator":
            honest = self.honest_next[person]
            self.honest_next[person] = not honest
        return f"{person} says {'yes' if truth == honest else 'no'}.", 0.0

    def _ask(self, person, about, kind):
        return self._reply(person.capitalize(), self.sort[about.capitalize()] == kind.lower())

    def _sum(self, person, first, second, total):
        return self._reply(person.capitalize(), int(first) + int(second) == int(total))

    def _name(self, person, kind):
        person, kind = person.capitalize(), kind.lower()
        if person in self.named:
            return f"You have already named {person}.", 0.0
        self.named.add(person)
        right = self.sort[person] == kind
        return f"{person} is {'indeed' if right else 'not'} a {kind}.", right / 6

    def step(self, action):
        finished = len(self.named) == len(NAMES)
        if finished or self.turn >= self.max_turns:
            return "The ferry has left.", 0.0, finished, not finished, {}
        self.turn += 1
        who, sort, number = f"({'|'.join(NAMES)})", f"({'|'.join(KINDS)})", "([0-9]{1,4})"
        grammar = (
            (rf"ask {who}: is {who} an? {sort}", self._ask),
            (rf"ask {who}: is {number} ?\+ ?{number} ?= ?{number}", self._sum),
            (rf"name {who} {sort}", self._name),
        )
        obs, reward = "Nobody understands you.", 0.0
        for pattern, deed in grammar:
            if match := re.search(pattern, action, re.IGNORECASE | re.ASCII):
                obs, reward = deed(*match.groups())
                break
        finished = len(self.named) == len(NAMES)
        return obs, reward, finished, not finished and self.turn >= self.max_turns, {}

    def solution(self):
        # The same sum twice: yes/yes knight, no/no knave, mixed alternator; the last person follows from the counts.
        asked = [f"ask {name}: is 1+1=2?" for name in NAMES[:-1] for _ in range(2)]
        return "\n".join(asked + [f"name {name} {kind}" for name, kind in self.sort.items()])
