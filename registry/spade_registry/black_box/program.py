import random
import re
from itertools import product


class BlackBoxEnv:
    """Query a hidden three-state machine with short words, then predict its output on long ones."""

    def __init__(self, max_turns=18, states=3, targets=4, **kwargs):
        self.max_turns, self.states, self.num_targets = max_turns, states, targets

    def reset(self, seed=None):
        rng = random.Random(seed)
        while True:
            self.table = {
                (state, letter): (rng.randrange(self.states), rng.choice("01"))
                for state, letter in product(range(self.states), "ab")
            }
            # Every state must be reached and show itself within two letters, or the black box stays unknowable.
            reached = {self._run("".join(word))[1] for n in range(3) for word in product("ab", repeat=n)}
            faces = {tuple(self._run(word, s)[0] for word in ("aa", "ab", "ba", "bb")) for s in range(self.states)}
            if len(reached) == len(faces) == self.states:
                break
        self.targets = ["".join(word) for word in rng.sample(list(product("ab", repeat=8)), self.num_targets)]
        self.unsettled = set(range(1, self.num_targets + 1))
        self.turn = 0
        words = "\n".join(f"  {number}: {word}" for number, word in enumerate(self.targets, 1))
        return (
            f"A sealed machine with {self.states} internal states reads letters a and b and writes one bit per "
            "letter. It starts every word in the same state.\n\\boxed{run abba} shows the output for a word of at "
            "most 5 letters. \\boxed{predict 2 BITS}, with eight zeros and ones for BITS, fixes your only prediction "
            "for target word 2.\n"
            f"Target words:\n{words}\nEach correct prediction is worth {1 / self.num_targets:g}. You have "
            f"{self.max_turns} turns."
        ), {}

    def _run(self, word, state=0):
        bits = ""
        for letter in word:
            state, bit = self.table[state, letter]
            bits += bit
        return bits, state

    def step(self, action):
        if not self.unsettled or self.turn >= self.max_turns:
            return "The machine is switched off.", 0.0, not self.unsettled, bool(self.unsettled), {}
        self.turn += 1
        reward, obs = 0.0, "Use \\boxed{run WORD} or \\boxed{predict NUMBER BITS}."
        inside = re.search(r"\\boxed\{([^{}]*)\}", action)
        verb, _, rest = (inside.group(1) if inside else "").strip().partition(" ")
        if verb == "run" and re.fullmatch("[ab]{1,5}", rest):
            obs = f"{rest} -> {self._run(rest)[0]}"
        elif verb == "predict" and re.fullmatch("[0-9] [01]{8}", rest):
            number = int(rest[0])
            if number not in self.unsettled:
                obs = "That target does not exist or is already settled."
            else:
                self.unsettled.remove(number)
                good = rest[2:] == self._run(self.targets[number - 1])[0]
                reward = good / self.num_targets
                obs = f"Prediction {number} is {'right' if good else 'wrong'}."
        finished = not self.unsettled
        return obs, reward, finished, not finished and self.turn >= self.max_turns, {}

    def solution(self):
        lines = ["run aaaaa", "run ababa", "run babab", "run bbbbb"]
        lines += [f"predict {number} {self._run(word)[0]}" for number, word in enumerate(self.targets, 1)]
        return "\n".join(lines)
