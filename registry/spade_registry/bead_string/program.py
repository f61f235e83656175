import random
import re
from collections import Counter


class BeadStringEnv:
    """Predict successive terms of a recurrence modulo m that gets an extra push every third bead."""

    SHOWN = 6

    def __init__(self, max_turns=8, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        rng = random.Random(seed)
        while True:
            self.modulus = rng.randint(7, 11)
            p, q, push = rng.randint(1, 3), rng.randint(1, 3), rng.randint(0, 2)
            beads = [rng.randrange(self.modulus), rng.randrange(1, self.modulus)]
            for n in range(2, self.SHOWN + self.max_turns):
                beads.append((p * beads[-1] + q * beads[-2] + push * (n % 3 == 0)) % self.modulus)
            # No bead may dominate, otherwise a constant guess would pay.
            if max(Counter(beads[self.SHOWN :]).values()) <= 2:
                break
        self.string, self.future = beads[: self.SHOWN], beads[self.SHOWN :]
        obs = (
            f"Beads on a string carry numbers from 0 to {self.modulus - 1}. Each bead follows from the two before it "
            f"by a fixed rule of the form (p*last + q*last-but-one) modulo {self.modulus}; p and q are 1, 2 or 3. In "
            "addition a fixed amount from 0 to 2 is added at the beads with index 3, 6, 9 and so on (the first is 0).\n"
            f"The string begins {', '.join(map(str, self.string))}. Predict the next bead by its number in "
            f"\\boxed{{number}}. After each answer the true bead is shown. {self.max_turns} predictions, each worth "
            f"{1 / self.max_turns:g}."
        )
        return obs, {}

    def step(self, action):
        if not self.future:
            return "The string is finished.", 0.0, True, False, {}
        truth = self.future.pop(0)
        guess = re.search(r"\\boxed\{\s*([0-9]{1,2})\s*\}", action)
        good = guess is not None and int(guess.group(1)) == truth
        self.string.append(truth)
        obs = f"{'Right' if good else 'No'}, bead {len(self.string) - 1} is {truth}. Left: {len(self.future)}."
        return obs, good / self.max_turns, not self.future, False, {}

    def solution(self):
        return "\n".join(map(str, self.future))
