import random
import re

TURNS = {
    "rotate it a quarter turn clockwise": lambda tile: [list(row) for row in zip(*tile[::-1], strict=True)],
    "rotate it a quarter turn counterclockwise": lambda tile: [list(row) for row in zip(*tile, strict=True)][::-1],
    "mirror it left to right": lambda tile: [row[::-1] for row in tile],
    "mirror it top to bottom": lambda tile: tile[::-1],
    "swap its rows with its columns": lambda tile: [list(row) for row in zip(*tile, strict=True)],
    "move the top row to the bottom": lambda tile: tile[1:] + tile[:1],
}


class TileTurnEnv:
    """Apply four movements to a letter tile in your head and read off one row."""

    def __init__(self, max_turns=1, moves=4, **kwargs):
        self.max_turns = max_turns
        self.moves = moves

    def reset(self, seed=None):
        rng = random.Random(seed)
        letters = rng.sample("ABCDEFGHI", 9)
        start = [letters[0:3], letters[3:6], letters[6:9]]
        which = rng.randrange(3)
        while True:
            names = rng.choices(list(TURNS), k=self.moves)
            tile = start
            for name in names:
                tile = TURNS[name](tile)
            # No row of the printed tile, read in either direction, may already be the answer.
            if all(tile[which] not in (row, row[::-1]) for row in start):
                break
        self.answer = "".join(tile[which])
        self.done = False
        shown = "\n".join(" ".join(row) for row in start)
        steps = "\n".join(f"{number}. {name}" for number, name in enumerate(names, 1))
        place = ("top", "middle", "bottom")[which]
        return (
            f"A square tile shows these letters:\n{shown}\nCarry out, one after the other:\n{steps}\n"
            f"Which three letters stand in the {place} row now, from left to right? Answer once, as in \\boxed{{XYZ}}."
        ), {}

    def step(self, action):
        if self.done:
            return "The tile is put away.", 0.0, True, False, {}
        self.done = True
        match = re.search(r"\\boxed\{\s*([A-Za-z])[\s,]*([A-Za-z])[\s,]*([A-Za-z])\s*\}", action)
        given = "".join(match.groups()).upper() if match else "---"
        right = sum(a == b for a, b in zip(given, self.answer, strict=True))
        if right == 3:
            return "Correct.", 1.0, True, False, {}
        return f"{right} letters are in the right place.", 0.1 * right, True, False, {}

    def solution(self):
        return self.answer
