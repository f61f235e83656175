import random
import re

SIDE = 4
INWARD = {"N": (1, 0), "E": (0, -1), "S": (-1, 0), "W": (0, 1)}
PORTS = [f"{letter}{number}" for letter in INWARD for number in range(1, SIDE + 1)]


def entrance(port):
    lane = int(port[1])
    row, column = {"N": (0, lane), "S": (SIDE + 1, lane), "W": (lane, 0), "E": (lane, SIDE + 1)}[port[0]]
    return row, column, *INWARD[port[0]]


def trace(mirrors, port):
    """Follow a ray and give the port where it leaves with the number of mirrors it met."""
    row, column, down, right = entrance(port)
    bounces = 0
    while True:
        row, column = row + down, column + right
        if not 1 <= row <= SIDE:
            return f"{'N' if row == 0 else 'S'}{column}", bounces
        if not 1 <= column <= SIDE:
            return f"{'W' if column == 0 else 'E'}{row}", bounces
        lean = mirrors.get((row, column))
        if lean:
            bounces += 1
            down, right = (-right, -down) if lean == "rising" else (right, down)


class MirrorBoxEnv:
    """Find out by shooting rays how the mirrors stand inside a closed box, and build an equal box."""

    def __init__(self, max_turns=20, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        rng = random.Random(seed)
        cells = [(r, c) for r in range(1, SIDE + 1) for c in range(1, SIDE + 1)]
        while True:
            self.mirrors = {cell: rng.choice(("rising", "falling")) for cell in rng.sample(cells, 3)}
            rays = [trace(self.mirrors, port) for port in PORTS]
            if any(bounces > 1 for _, bounces in rays):
                break
        self.exits = [port for port, _ in rays]
        self.model = {}
        self.turn = 0
        self.submitted = False
        return (
            f"A closed box of {SIDE} by {SIDE} cells hides three two-sided mirrors, rising (/) or falling (\\). Rays "
            f"enter at the ports N1 to N{SIDE} and S1 to S{SIDE} above and below the columns (counted from the west) "
            f"and at W1 to W{SIDE} and E1 to E{SIDE} beside the rows (counted from the north).\n\\boxed{{fire N2}} "
            "shows where that ray leaves. Build your own box with \\boxed{put 1 4 rising} (row, column) and "
            "\\boxed{clear 1 4}; \\boxed{submit} compares it with the closed one, port by port, and ends the game. "
            f"You win if every ray agrees; rays that agree only partly earn part. {self.max_turns} turns."
        ), {}

    def step(self, action):
        if self.submitted or self.turn >= self.max_turns:
            return "The boxes are put away.", 0.0, self.submitted, not self.submitted, {}
        self.turn += 1
        late = self.turn >= self.max_turns
        words = (re.findall(r"\\boxed\{([^{}]*)\}", action) or [action])[-1].split()
        match words:
            case ["fire", port] if port in PORTS:
                return f"The ray from {port} leaves at {trace(self.mirrors, port)[0]}.", 0.0, False, late, {}
            case ["put", row, column, "rising" | "falling" as lean] if {row, column} <= set("1234"):
                self.model[int(row), int(column)] = lean
            case ["clear", row, column] if {row, column} <= set("1234"):
                self.model.pop((int(row), int(column)), None)
            case ["submit"]:
                self.submitted = True
                return self._compare()
            case _:
                return "The box does not react.", 0.0, False, late, {}
        built = "; ".join(f"{r} {c} {lean}" for (r, c), lean in sorted(self.model.items()))
        return f"Your box: {built or 'empty'}.", 0.0, False, late, {}

    def _compare(self):
        straight = sum(trace({}, port)[0] == out for port, out in zip(PORTS, self.exits, strict=True))
        equal = sum(trace(self.model, port)[0] == out for port, out in zip(PORTS, self.exits, strict=True))
        if equal == len(PORTS):
            return "Every ray agrees.", 1.0, True, False, {}
        # Rays that an empty box passes as well earn nothing.
        share = max(0, equal - straight) / (len(PORTS) - straight)
        return f"{equal} of {len(PORTS)} rays agree.", 0.6 * share, True, False, {}

    def solution(self):
        shots = [f"fire {port}" for port in PORTS[::2]]
        return "\n".join([*shots, *(f"put {r} {c} {lean}" for (r, c), lean in self.mirrors.items()), "submit"])
