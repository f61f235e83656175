import random
import re
from collections import deque

DIRS = {"north": (-1, 0), "south": (1, 0), "west": (0, -1), "east": (0, 1)}


class EchoCaveEnv:
    """Collect two crystals in an unknown cave with an echo sounder and leave through the far corner."""

    def __init__(self, max_turns=25, size=5, **kwargs):
        self.max_turns = max_turns
        self.size = size

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.exit = (self.size - 1, self.size - 1)
        chambers = [(row, column) for row in range(self.size) for column in range(self.size)][1:-1]
        while True:
            self.rock = {chamber for chamber in chambers if rng.random() < 0.25}
            self.pos = (0, 0)
            self.crystals = rng.sample([chamber for chamber in chambers if chamber not in self.rock], 2)
            if all(goal in self._distances(self.pos) for goal in [*self.crystals, self.exit]):
                route = self._route()
                if 9 <= len(route) <= 18:
                    break
        self.turn = 0
        self.left_cave = False
        intro = (
            f"You stand in the north-west corner of a cave of {self.size} by {self.size} chambers, some of them solid "
            "rock. Two crystals are hidden in it. Collect both by walking into their chambers, then walk to the "
            f"south-east corner, within {self.max_turns} moves. A crystal is worth a quarter, the exit one half. Each "
            "move is \\boxed{north}, \\boxed{south}, \\boxed{east} or \\boxed{west}.\n"
        )
        return intro + self._look(), {}

    def _ways(self, chamber):
        for name, (down, right) in DIRS.items():
            there = (chamber[0] + down, chamber[1] + right)
            if min(there) >= 0 and max(there) < self.size and there not in self.rock:
                yield name, there

    def _distances(self, start):
        found, queue = {start: 0}, deque([start])
        while queue:
            here = queue.popleft()
            for _, there in self._ways(here):
                if there not in found:
                    found[there] = found[here] + 1
                    queue.append(there)
        return found

    def _look(self):
        row, column = self.pos
        ways = ", ".join(name for name, _ in self._ways(self.pos))
        if self.crystals:
            echo = min(abs(row - r) + abs(column - c) for r, c in self.crystals)
            tail = f"The echo counts {echo} chambers, straight through rock, to the nearest of {len(self.crystals)}."
        else:
            tail = "All crystals are in your bag. Find the exit."
        return f"Row {row}, column {column}. Open ways: {ways}. {tail}"

    def step(self, action):
        if self.left_cave or self.turn >= self.max_turns:
            return "The cave lies behind you.", 0.0, self.left_cave, not self.left_cave, {}
        self.turn += 1
        late = self.turn >= self.max_turns
        match = re.search(r"\\boxed\{\s*([a-z]+)\s*\}", action.lower())
        ways = dict(self._ways(self.pos))
        if not match or match.group(1) not in ways:
            return f"There is no such way. {self._look()}", 0.0, False, late, {}
        self.pos = ways[match.group(1)]
        if self.pos in self.crystals:
            self.crystals.remove(self.pos)
            return f"You pick up a crystal! {self._look()}", 0.25, False, late, {}
        if self.pos == self.exit and not self.crystals:
            self.left_cave = True
            return "You step into the daylight with all crystals.", 0.5, True, False, {}
        return self._look(), 0.0, False, late, {}

    def _route(self):
        near = self._distances(self.pos)
        here, moves = self.pos, []
        for goal in [*sorted(self.crystals, key=near.get), self.exit]:
            back = self._distances(goal)
            while here != goal:
                name, here = min(self._ways(here), key=lambda way: back[way[1]])
                moves.append(name)
        return moves

    def solution(self):
        return "\n".join(self._route())
