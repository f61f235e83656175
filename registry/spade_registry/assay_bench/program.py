import random
import re

MECHANISMS = {
    "competitive": lambda vmax, km, factor: (vmax, km * factor),
    "noncompetitive": lambda vmax, km, factor: (vmax / factor, km),
    "activator": lambda vmax, km, factor: (vmax * (0.8 + 0.2 * factor), km),
    "inert": lambda vmax, km, factor: (vmax, km),
}


class AssayBenchEnv:
    """Identify how four additives act on an enzyme from a limited number of speed measurements."""

    ADDITIVES = "PQRS"
    DOSES = (2, 5, 20, 100, 500)

    def __init__(self, max_turns=16, **kwargs):
        self.max_turns = max_turns
        self.num_assays = max_turns - len(self.ADDITIVES)

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.vmax, self.km = rng.randint(60, 120), rng.choice((4, 5, 6, 8, 10))
        kinds = rng.sample(list(MECHANISMS), 2) + rng.choices(list(MECHANISMS), k=2)
        rng.shuffle(kinds)
        self.kinds = dict(zip(self.ADDITIVES, kinds, strict=True))
        self.strength = {letter: rng.choice((0.5, 0.8, 1.0, 1.5)) for letter in self.ADDITIVES}
        self.assays_left = self.num_assays
        self.verdicts = {}
        self.turn = 0
        return (
            "An enzyme turns substrate into product; the speed is Vmax*S/(Km+S) with unknown Vmax and Km. Four "
            "additives P, Q, R, S are on the shelf. A competitive inhibitor raises the apparent Km, a noncompetitive "
            "one lowers Vmax, an activator raises Vmax, and some are inert. Two additives may work in the same way.\n"
            "\\boxed{assay 20 none} measures the speed at substrate 20 without additive, \\boxed{assay 20 Q 3} with 3 "
            f"units of additive Q (substrate {', '.join(map(str, self.DOSES))}; additive 1 to 3 units). You have "
            f"{self.num_assays} assays and {self.max_turns} turns.\n\\boxed{{verdict Q is MECHANISM}}, with "
            "competitive, noncompetitive, activator or inert, gives your only verdict on Q. "
            "Each correct verdict is worth 0.25."
        ), {}

    def step(self, action):
        over = len(self.verdicts) == len(self.ADDITIVES)
        if over or self.turn >= self.max_turns:
            return "The bench is cleared.", 0.0, over, not over, {}
        self.turn += 1
        reward = 0.0
        if assay := re.search(r"\bassay ([0-9]{1,3}) (?:none|([PQRS]) ([1-3]))\s*(?:\}|$)", action):
            obs = self._assay(int(assay[1]), assay[2], int(assay[3] or 0))
        elif verdict := re.search(r"\bverdict ([PQRS]) is ([a-z]+)\s*(?:\}|$)", action):
            letter, kind = verdict.groups()
            if letter in self.verdicts or kind not in MECHANISMS:
                obs = f"{letter} is judged already." if letter in self.verdicts else f"There is no mechanism {kind!r}."
            else:
                self.verdicts[letter] = kind
                reward = 0.25 if self.kinds[letter] == kind else 0.0
                obs = f"Your verdict on {letter} is {'confirmed' if reward else 'refuted'}."
        else:
            obs = "Unknown instruction."
        over = len(self.verdicts) == len(self.ADDITIVES)
        return obs, reward, over, not over and self.turn >= self.max_turns, {}

    def _assay(self, substrate, additive, units):
        if substrate not in self.DOSES:
            return f"Only these amounts of substrate are weighed out: {', '.join(map(str, self.DOSES))}."
        if not self.assays_left:
            return "The enzyme is used up."
        self.assays_left -= 1
        vmax, km = self.vmax, self.km
        if additive:
            vmax, km = MECHANISMS[self.kinds[additive]](vmax, km, 1 + self.strength[additive] * units)
        return f"Speed {vmax * substrate / (km + substrate):.1f}. {self.assays_left} assays left."

    def solution(self):
        lines = ["assay 5 none", "assay 500 none"]
        for letter in self.ADDITIVES:
            lines += [f"assay {substrate} {letter} 3" for substrate in (5, 500)]
        return "\n".join(lines + [f"verdict {letter} is {kind}" for letter, kind in self.kinds.items()])
