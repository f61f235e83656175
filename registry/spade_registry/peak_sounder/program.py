import random
import re
from itertools import accumulate


class PeakSounderEnv:
    """Find the top of a submarine ridge with few soundings, and anchor there."""

    LENGTH = 60

    def __init__(self, max_turns=11, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.peak = rng.randint(4, self.LENGTH - 3)
        west = list(accumulate(rng.choice((1, 1, 2, 3, 7)) for _ in range(self.peak - 1)))
        east = list(accumulate(rng.choice((1, 1, 2, 3, 7)) for _ in range(self.LENGTH - self.peak)))
        top = max(west[-1], east[-1]) + rng.randint(5, 40)
        self.heights = dict(enumerate([top - d for d in reversed(west)] + [top] + [top - d for d in east], 1))
        self.log = {}
        self.anchored = False
        self.turn = 0
        obs = (
            f"A ridge lies under the sea along {self.LENGTH} marks. From its west end its height rises strictly up to "
            "one top and then falls strictly to the east end, by steps of any size.\n"
            f"\\boxed{{sound 20}} measures the height at a mark, {self.max_turns - 1} times at most. "
            "\\boxed{anchor at M} (M a mark) ends the game: anchoring on the top wins, "
            f"anchoring lower earns a little if it is almost as high. You have {self.max_turns} turns."
        )
        return obs, {}

    def step(self, action):
        if self.anchored or self.turn >= self.max_turns:
            return "The ship rests.", 0.0, self.anchored, not self.anchored, {}
        self.turn += 1
        out_of_time = self.turn == self.max_turns
        order = re.search(r"(sound|anchor at)\s+([0-9]{1,2})\s*(?:\}|$)", action.lower())
        mark = int(order[2]) if order else 0
        if mark not in self.heights:
            return f"Name a mark from 1 to {self.LENGTH}.", 0.0, False, out_of_time, {}
        if order[1] == "sound":
            self.log[mark] = self.heights[mark]
            chart = ", ".join(f"{m}: {h}" for m, h in sorted(self.log.items()))
            return f"Heights so far: {chart}.", 0.0, False, out_of_time, {}
        self.anchored = True
        if mark == self.peak:
            return "The anchor holds on the top.", 1.0, True, False, {}
        below = self.heights[self.peak] - self.heights[mark]
        return f"The top is {below} higher.", max(0.0, 0.4 - 0.05 * below), True, False, {}

    def solution(self):
        """Fibonacci search: each sounding drops the part of the ridge behind the lower of two marks."""
        low, small, large = 0, 34, 55
        soundings = {}
        while large > 1:
            # Marks beyond the east end count as ever deeper.
            left, right = (self.heights.get(low + reach, -low - reach) for reach in (small, large))
            soundings |= {mark: None for mark in (low + small, low + large) if mark <= self.LENGTH}
            low += small * (left < right)
            small, large = large - small, small
        return "\n".join([*(f"sound {mark}" for mark in soundings), f"anchor at {low + 1}"])
