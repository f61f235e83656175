import random
from itertools import product

CHUTES = ("left", "middle", "right", "tray", "cage")
TRAITS = (("red", "green", "blue"), ("plain", "fragile", "living"), ("silent", "ringing"))


def chute_for(colour, content, bell):
    if content == "living":
        return "cage"
    if content == "fragile" and colour != "blue":
        return "tray"
    if colour == "green":
        return "middle"
    return "left" if (colour == "red") == (bell == "silent") else "right"


class ParcelChutesEnv:
    """Infer the habits of a parcel sorter from his log, then take over the shift."""

    def __init__(self, max_turns=12, wanted=8, **kwargs):
        self.max_turns, self.wanted = max_turns, wanted

    def reset(self, seed=None):
        rng = random.Random(seed)
        every = list(product(*TRAITS))
        rng.shuffle(every)
        by_chute = {c: [p for p in every if chute_for(*p) == c] for c in CHUTES}
        # Cage and tray hold many kinds; chutes are drawn first so that none of them dominates.
        self.belt = [rng.choice(by_chute[rng.choice(CHUTES)]) for _ in range(self.max_turns)]
        log = "\n".join(f"  {' '.join(parcel)} -> {chute_for(*parcel)}" for parcel in every[:11])
        self.right = self.seen = 0
        intro = (
            "The old sorter left no rule behind, only a page of his log (colour, content, bell at that moment):\n"
            f"{log}\nSort as he did. Commands: "
            + ", ".join(f"\\boxed{{drop {c}}}" for c in CHUTES)
            + f". {self.wanted} well sorted parcels out of {self.max_turns} win; each pays the same.\n"
        )
        return intro + self._parcel(), {}

    def _parcel(self):
        return "Parcel: {}, {}. Bell {}.".format(*self.belt[self.seen])

    def step(self, action):
        if self.right == self.wanted or self.seen == len(self.belt):
            won = self.right == self.wanted
            return "The shift is over.", 0.0, won, not won, {}
        truth = chute_for(*self.belt[self.seen])
        self.seen += 1
        good = action.strip().lower().replace("\\boxed{", "").rstrip("}").split() == ["drop", truth]
        self.right += good
        if self.right == self.wanted:
            return "Well sorted. That was the last one needed.", 1 / self.wanted, True, False, {}
        word = "Well sorted." if good else "Missorted."
        if self.seen == len(self.belt):
            return f"{word} The shift ends too early.", good / self.wanted, False, True, {}
        return f"{word} {self._parcel()}", good / self.wanted, False, False, {}

    def solution(self):
        return "\n".join(f"drop {chute_for(*parcel)}" for parcel in self.belt[: self.wanted])
