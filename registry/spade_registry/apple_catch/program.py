import random
import re

RUN = {"run left": -2, "step left": -1, "stay": 0, "step right": 1, "run right": 2}


class AppleCatchEnv:
    """Stand where the apple lands: its offset plus wind times falling time."""

    def __init__(self, max_turns=12, quota=4, **kwargs):
        self.max_turns = max_turns
        self.quota = quota

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.apples = []
        while not self.apples or sum(beats for _, _, beats in self.apples[: self.quota]) > 7:
            self.apples = [self._grow(rng) for _ in range(self.max_turns)]
        self.clock = 0
        self.caught = 0
        self.offset, self.wind, self.beats = self.apples[0]
        text = "Apples fall in the orchard, one after the other, and you carry the basket. In every beat the wind "
        text += "drives the apple one pace (an east wind to the left, a west wind to the right), and you run two "
        text += "paces, step one or stay. An apple is yours if it hangs over you when its last beat is done; 2L means "
        text += f"two paces to your left. Catch {self.quota} apples within {self.max_turns} beats.\n"
        text += f"Commands: {', '.join(f'[{name}]' for name in RUN)}, each in a box: \\boxed{{COMMAND}}.\n"
        return text + self._sight(), {}

    @staticmethod
    def _grow(rng):
        while True:
            beats, wind = rng.choice((1, 2, 2, 3)), rng.choice((-1, 0, 1))
            offset = rng.randint(-5, 5)
            if 0 < abs(offset + wind * beats) <= 2 * beats:
                return offset, wind, beats

    def _sight(self):
        paces = min(abs(self.offset), 6)
        place = f"{paces}{'L' if self.offset < 0 else 'R'}" if paces else "above"
        return f"Apple {place}. Wind {('easterly', 'calm', 'westerly')[self.wind + 1]}. Beats {self.beats}."

    def step(self, action):
        done = self.caught >= self.quota
        if done or self.clock >= self.max_turns:
            return "The basket is put away.", 0.0, done, not done, {}
        self.clock += 1
        boxes = re.findall(r"\\boxed\{\s*([a-z ]{1,12}?)\s*\}", action)
        self.offset += self.wind - RUN.get(boxes[-1] if boxes else "", 0)
        self.beats -= 1
        reward, news = 0.0, "Falling."
        if self.beats == 0:
            news = "Missed."
            if self.offset == 0:
                self.caught += 1
                reward, news = 1 / self.quota, "Caught."
            if self.caught == self.quota:
                return "Caught. The basket is full.", reward, True, False, {}
            self.apples = self.apples[1:]
            self.offset, self.wind, self.beats = self.apples[0] if self.apples else (0, 0, 1)
        return f"{news} {self._sight()}", reward, False, self.clock >= self.max_turns, {}

    def solution(self):
        moves = []
        for offset, wind, beats in self.apples[: self.quota]:
            need = offset + wind * beats
            for _ in range(beats):
                pace = max(-2, min(2, need))
                need -= pace
                moves.append(next(name for name, value in RUN.items() if value == pace))
        return "\n".join(moves)
