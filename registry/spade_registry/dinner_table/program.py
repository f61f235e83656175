import random
from itertools import permutations

GUESTS = ("ann", "bob", "cid", "dot", "eve")
PLACES = ("first", "second", "third", "fourth", "fifth")


def true_clues(seat):
    """Every sentence of the host's vocabulary that a seating (guest -> place) makes true."""
    for guest in GUESTS:
        side = "in an outer" if seat[guest] in (0, 4) else "in an inner"
        yield f"{guest.title()} sits {side} chair."
        for other in GUESTS:
            gap = seat[other] - seat[guest]
            if gap > 0:
                yield f"{guest.title()} sits somewhere to the left of {other.title()}."
            if gap in (-1, 1) and guest < other:
                yield f"{guest.title()} and {other.title()} are neighbours."
            if abs(gap) == 2 and guest < other:
                yield f"Exactly one person sits between {guest.title()} and {other.title()}."
            if abs(gap) > 1 and guest < other:
                yield f"{guest.title()} and {other.title()} are not neighbours."


class DinnerTableEnv:
    """Seat five guests in a row from the host's remarks; two attempts."""

    def __init__(self, max_turns=2, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        rng = random.Random(seed)
        worlds = [(order, frozenset(true_clues({g: i for i, g in enumerate(order)}))) for order in permutations(GUESTS)]
        self.order, facts = rng.choice(worlds)
        pool = sorted(facts)
        rng.shuffle(pool)
        remarks = pool[:]
        for remark in pool:
            fewer = [r for r in remarks if r != remark]
            if sum(truths.issuperset(fewer) for _, truths in worlds) == 1:
                remarks = fewer
        self.remarks = remarks
        self.best, self.attempts = 0.0, 0
        heard = "\n".join(f"- {remark}" for remark in remarks)
        return (
            f"Five guests, {', '.join(g.title() for g in GUESTS)}, sit side by side in chairs one to five from the "
            f"left. The host remembers only this:\n{heard}\nExactly one seating fits. Name the guests from left to "
            "right, with spaces between, as \\boxed{name name name name name}. You have two attempts and "
            "hear how many remarks fail."
        ), {}

    def step(self, action):
        if self.best == 1.0 or self.attempts >= self.max_turns:
            return "The soup is served.", 0.0, True, False, {}
        self.attempts += 1
        order = action.strip().removeprefix("\\boxed{").removesuffix("}").lower().split()
        last = self.attempts == self.max_turns
        if sorted(order) != list(GUESTS):
            return "Name each guest exactly once.", 0.0, last, False, {}
        truths = set(true_clues({guest: place for place, guest in enumerate(order)}))
        failed = [remark for remark in self.remarks if remark not in truths]
        grade = 0.4 * (1 - len(failed) / len(self.remarks)) if failed else 1.0
        reward, self.best = max(0.0, grade - self.best), max(grade, self.best)
        if not failed:
            return "Everybody sits where they should.", reward, True, False, {}
        return f"{len(failed)} of {len(self.remarks)} remarks fail.", reward, last, False, {}

    def solution(self):
        return " ".join(self.order)
