import random
import re

WEIGHTS = {"light": 1, "medium": 2, "heavy": 3}


class RaftBalanceEnv:
    """Stow crates on a raft so that it lies level again after every swell."""

    def __init__(self, max_turns=12, needed=8, **kwargs):
        self.max_turns = max_turns
        self.needed = needed

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.crates = [rng.choice(list(WEIGHTS)) for _ in range(self.max_turns + 1)]
        self.swells = [rng.choice((-3, -2, 2, 3)) for _ in range(self.max_turns + 1)]
        self.tilt = self.swells[0]
        self.turn = self.level = 0
        return (
            "Crates come aboard a raft one by one, between the swells of a river. Benches 1, 2 and 3 lie on either "
            "side of the middle. A crate presses its side down by weight times bench number, where the three sorts of "
            "crate weigh 1, 2 and 3. A stowing that leaves the lean at one degree or less is good; then the next "
            f"swell tips the raft two or three degrees. {self.needed} good stowings within {self.max_turns} turns "
            "win.\nCommands: \\boxed{stow port 2} (port is the left, benches 1 to 3), \\boxed{stow starboard 2} (the "
            f"right), \\boxed{{stow centre}}.\n{self._report()}"
        ), {}

    def _report(self):
        side = "leftward" if self.tilt < 0 else "rightward" if self.tilt > 0 else "nowhere"
        return f"The raft leans {side} {abs(self.tilt)}. Crate: {self.crates[self.turn]}."

    def step(self, action):
        if self.level >= self.needed or self.turn >= self.max_turns:
            return "The landing stage is empty.", 0.0, self.level >= self.needed, self.level < self.needed, {}
        match = re.search(r"stow\s+(?:(port|starboard)\s+([1-3])|centre)\s*(?:\}|$)", action.lower())
        reward, note = 0.0, "The crate slides into the river. "
        if match:
            bench = int(match[2] or 0) * (-1 if match[1] == "port" else 1)
            self.tilt += bench * WEIGHTS[self.crates[self.turn]]
            note = "Too far over. "
            if abs(self.tilt) <= 1:
                self.level += 1
                reward, note = 1 / self.needed, "Good. "
        self.turn += 1
        if self.level == self.needed:
            return "The raft is loaded and lies level.", reward, True, False, {}
        self.tilt = max(-7, min(7, self.tilt + self.swells[self.turn]))
        return note + self._report(), reward, False, self.turn >= self.max_turns, {}

    def solution(self):
        tilt, plan = self.tilt, []
        for turn in range(self.needed):
            weight = WEIGHTS[self.crates[turn]]
            bench = min(range(-3, 4), key=lambda b: (abs(tilt + b * weight), abs(b)))
            plan.append(f"stow {'port' if bench < 0 else 'starboard'} {abs(bench)}" if bench else "stow centre")
            tilt += bench * weight + self.swells[turn + 1]
        return "\n".join(plan)
