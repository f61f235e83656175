import random
import re
from fractions import Fraction


class AdjustedEffectEnv:
    """Predict from confounded hospital records how many would recover if everybody were treated."""

    def __init__(self, max_turns=1, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        rng = random.Random(seed)
        while True:
            self.table = {}
            for severity, rates, many in (("mild", (5, 8), "control"), ("severe", (1, 4), "treated")):
                base = rng.randint(*rates)
                for arm, rate in (("control", base), ("treated", base + rng.randint(1, 2))):
                    patients = 10 * (rng.randint(6, 9) if arm == many else rng.randint(1, 3))
                    self.table[severity, arm] = (patients, patients * rate // 10)
            treated, control = self._crude("treated"), self._crude("control")
            self.target = self._standardised("treated")
            total = sum(patients for patients, _ in self.table.values())
            # The crude comparison must point the wrong way, and the naive forecast must be clearly off.
            if treated < control and abs(self.target - treated * total) > 5:
                break
        self.naive = round(treated * total)
        self.answered = False
        rows = "\n".join(
            f"  {severity:7s} {arm:8s} patients {patients:3d}  recovered {recovered:3d}"
            for (severity, arm), (patients, recovered) in self.table.items()
        )
        text = (
            "A hospital compared patients with and without a new treatment. Doctors preferred to give it to severe "
            f"cases; severity influences recovery, and nothing else differs between the groups.\n{rows}\n"
            f"Suppose all {total} patients had been treated. How many recoveries would you expect? Give the nearest "
            "whole number, once, as \\boxed{number}."
        )
        return text, {}

    def _crude(self, arm):
        pairs = [pair for (_, group), pair in self.table.items() if group == arm]
        return Fraction(sum(recovered for _, recovered in pairs), sum(patients for patients, _ in pairs))

    def _standardised(self, arm):
        """Sum over severities of the rate within the arm times everybody of that severity."""
        expected = Fraction(0)
        for severity in ("mild", "severe"):
            everybody = sum(patients for key, (patients, _) in self.table.items() if key[0] == severity)
            patients, recovered = self.table[severity, arm]
            expected += Fraction(recovered, patients) * everybody
        return int(expected)

    def step(self, action):
        if self.answered:
            return "The report is filed.", 0.0, True, False, {}
        self.answered = True
        numbers = re.findall(r"\\boxed\{\s*([0-9]{1,4})\s*\}", action)
        if not numbers:
            return "No number found.", 0.0, True, False, {}
        error = abs(int(numbers[-1]) - self.target)
        if error == 0:
            return "Correct.", 1.0, True, False, {}
        if int(numbers[-1]) == self.naive:
            return "That forecast ignores who was treated.", 0.1, True, False, {}
        near = error <= 3
        return "Not correct, but near." if near else "Not correct.", 0.3 * near, True, False, {}

    def solution(self):
        return str(self.target)
