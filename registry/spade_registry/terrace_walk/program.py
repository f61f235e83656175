import random
import re


class TerraceWalkEnv:
    """Count monotone paths through a field with ponds, a compulsory gate and perhaps diagonal steps."""

    def __init__(self, max_turns=1, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.closed = False
        while True:
            self.width, self.height = rng.randint(5, 7), rng.randint(4, 6)
            self.diagonal = rng.random() < 0.5
            corner = (self.width, self.height)
            inner = [(x, y) for x in range(self.width + 1) for y in range(self.height + 1)][1:-1]
            *ponds, self.gate = rng.sample(inner, 4)
            self.ponds = sorted(ponds)
            self.count = self._paths((0, 0), self.gate) * self._paths(self.gate, corner)
            self.ungated = self._paths((0, 0), corner)
            if 20 <= self.count <= 2000 and self.ungated != self.count:
                break
        steps = "one unit right (+1,0), one unit up (0,+1)"
        if self.diagonal:
            steps += " or one diagonal unit (+1,+1), which touches only its two end points"
        return (
            f"A walker goes from (0,0) to ({self.width},{self.height}). Every step is {steps}. The points "
            f"{', '.join(map(str, self.ponds))} are under water and cannot be used, and the walker has to pass "
            f"through the gate at {self.gate}.\nHow many different walks are there? The number is at most 2000. "
            "Answer once, with \\boxed{number}."
        ), {}

    def _paths(self, start, goal):
        ways = {start: 1}
        for x in range(start[0], goal[0] + 1):
            for y in range(start[1], goal[1] + 1):
                if (x, y) in self.ponds:
                    ways[x, y] = 0
                elif (x, y) != start:
                    slanted = ways.get((x - 1, y - 1), 0) if self.diagonal else 0
                    ways[x, y] = ways.get((x - 1, y), 0) + ways.get((x, y - 1), 0) + slanted
        return ways.get(goal, 0)

    def step(self, action):
        if self.closed:
            return "The terrace is closed.", 0.0, True, False, {}
        self.closed = True
        match = re.search(r"\\boxed\{\s*([0-9]{1,6})\s*\}", action)
        value = int(match.group(1)) if match else None
        if value == self.count:
            return "Correct.", 1.0, True, False, {}
        if value == self.ungated:
            return "That counts the walks that miss the gate as well.", 0.25, True, False, {}
        return "Not correct.", 0.0, True, False, {}

    def solution(self):
        return str(self.count)
