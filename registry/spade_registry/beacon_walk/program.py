import random

MOVES = {"north": (0, 1), "east": (1, 0), "south": (0, -1), "west": (-1, 0)}


class BeaconWalkEnv:
    """Walk through a garden of hedges to a beacon whose bearing is always shown."""

    def __init__(self, max_turns=12, size=8, **kwargs):
        self.max_turns = max_turns
        self.size = size

    def reset(self, seed=None):
        rng = random.Random(seed)
        cells = [(x, y) for x in range(self.size) for y in range(self.size)]
        self.beacon = rng.choice(cells)
        starts = [c for c in cells if min(self._gap(c)) >= 2 and 6 <= sum(self._gap(c)) <= 9]
        while not starts:
            self.beacon = rng.choice(cells)
            starts = [c for c in cells if min(self._gap(c)) >= 2 and 6 <= sum(self._gap(c)) <= 9]
        self.here = rng.choice(starts)
        # A hedge between two cells hinders only the farther one, so one open approach per cell keeps all paths short.
        self.hedges = set()
        for cell in cells:
            useful = self._useful(cell)
            if len(useful) == 2 and rng.random() < 0.7:
                name = rng.choice(useful)
                self.hedges |= {(cell, name), (self._beyond(cell, name), self._opposite(name))}
        self.length = self.nearest = sum(self._gap(self.here))
        self.turn = 0
        self.arrived = False
        rules = (
            f"A beacon stands somewhere in a walled garden of {self.size} by {self.size} lawns. Hedges grow between "
            f"some lawns. Reach the beacon within {self.max_turns} turns. Each turn walk one lawn with one of "
            "\\boxed{go north}, \\boxed{go east}, \\boxed{go south}, \\boxed{go west}; a bump wastes a turn.\n"
        )
        return rules + self._view(), {}

    def _gap(self, cell):
        return abs(self.beacon[0] - cell[0]), abs(self.beacon[1] - cell[1])

    def _beyond(self, cell, name):
        return cell[0] + MOVES[name][0], cell[1] + MOVES[name][1]

    def _opposite(self, name):
        order = list(MOVES)
        return order[(order.index(name) + 2) % 4]

    def _useful(self, cell):
        return [m for m in MOVES if sum(self._gap(self._beyond(cell, m))) < sum(self._gap(cell))]

    def _blocked(self, cell, name):
        return (cell, name) in self.hedges or not all(0 <= v < self.size for v in self._beyond(cell, name))

    def _view(self):
        bearing = " ".join(f"{m}ward" for m in self._useful(self.here))
        hedges = " ".join(m[0].upper() for m in MOVES if self._blocked(self.here, m))
        return f"The beacon lies {bearing}. Hedges: {hedges or 'none'}."

    def step(self, action):
        if self.arrived or self.turn >= self.max_turns:
            return "The walk is over.", 0.0, self.arrived, not self.arrived, {}
        self.turn += 1
        late = self.turn >= self.max_turns
        word = action.rpartition("\\boxed{")[2].partition("}")[0].strip().lower()
        name = word.removeprefix("go ")
        if not word.startswith("go ") or name not in MOVES:
            return "No such walk. " + self._view(), 0.0, False, late, {}
        if self._blocked(self.here, name):
            return "Bump. " + self._view(), 0.0, False, late, {}
        self.here = self._beyond(self.here, name)
        distance = sum(self._gap(self.here))
        reward = 0.6 * max(0, self.nearest - distance) / self.length
        self.nearest = min(self.nearest, distance)
        if distance == 0:
            self.arrived = True
            return "You touch the beacon.", reward + 0.4, True, False, {}
        return self._view(), reward, False, late, {}

    def solution(self):
        cell, walk = self.here, []
        while cell != self.beacon:
            name = next(m for m in self._useful(cell) if not self._blocked(cell, m))
            walk.append(f"go {name}")
            cell = self._beyond(cell, name)
        return "\n".join(walk)
