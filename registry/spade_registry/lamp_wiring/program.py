import random
import re
from itertools import combinations

LAMPS = "ABCD"


class LampWiringEnv:
    """Draw the hidden one-way wiring of four lamps by forcing some of them and watching the others."""

    def __init__(self, max_turns=24, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.order = rng.sample(LAMPS, len(LAMPS))
        self.base = {lamp: rng.randint(0, 1) for lamp in self.order}
        pairs = list(combinations(self.order, 2))
        self.wires = set(rng.sample(pairs, rng.randint(3, 5)))
        self.found = set()
        self.errors = self.turn = 0
        self.closed = False
        obs = (
            "Four lamps A to D are connected by hidden one-way wires without loops. A lamp with no interference shows "
            "its own base state; every lit lamp that is wired to it flips it once.\n"
            "Commands: \\boxed{look}; \\boxed{set A=1,C=0} forces the named lamps (for this look only, and cuts them "
            "off from their own inputs) and shows the whole panel; \\boxed{claim A->B} asserts a direct wire; "
            "\\boxed{finish} ends the game when you think all wires are claimed.\n"
            "The claims of all wires are worth 0.8 together, finishing with none missing 0.2. A wrong claim is a "
            f"mistake; the third mistake ends the game. Turns: {self.max_turns}."
        )
        return obs, {}

    def _panel(self, forced):
        state = dict(forced)
        for lamp in self.order:
            if lamp not in forced:
                state[lamp] = (self.base[lamp] + sum(state[source] for source, sink in self.wires if sink == lamp)) % 2
        return " ".join(f"{lamp}={state[lamp]}" for lamp in LAMPS)

    def _claim(self, wire):
        if wire in self.found:
            return "Already claimed.", 0.0
        if wire in self.wires:
            self.found.add(wire)
            return "That wire exists.", 0.8 / len(self.wires)
        self.errors += 1
        self.closed = self.errors == 3
        return f"There is no such wire. Mistakes: {self.errors}.", 0.0

    def step(self, action):
        if self.closed or self.turn >= self.max_turns:
            return "The panel is dark.", 0.0, self.closed, not self.closed, {}
        self.turn += 1
        box = re.search(r"\\boxed\{([^{}]*)\}", action)
        text = re.sub(r"\s+", "", box.group(1) if box else action).upper()
        obs, reward = "Unknown command.", 0.0
        if text == "LOOK":
            obs = self._panel({})
        elif text == "FINISH":
            self.closed = True
            missing = len(self.wires - self.found)
            obs, reward = (f"{missing} wires were missing.", 0.0) if missing else ("All wires found.", 0.2)
        elif re.fullmatch(r"SET[A-D]=[01](,[A-D]=[01])*", text):
            obs = self._panel({part[0]: int(part[2]) for part in text[3:].split(",")})
        elif re.fullmatch(r"CLAIM[A-D]->[A-D]", text):
            obs, reward = self._claim((text[5], text[8]))
        return obs, reward, self.closed, not self.closed and self.turn >= self.max_turns, {}

    def solution(self):
        lines = ["look"]
        for sink in self.order:
            # Hold every other lamp and toggle one at a time, so that only direct wires show.
            held = [lamp for lamp in LAMPS if lamp != sink]
            sources = sorted(source for source, end in self.wires if end == sink)
            for lit in ["", *sources] if sources else []:
                lines.append("set " + ",".join(f"{lamp}={int(lamp == lit)}" for lamp in held))
            lines += [f"claim {source}->{sink}" for source in sources]
        return "\n".join([*lines, "finish"])
