import random

FEATURES = {
    "count": ("1", "2", "3", "4", "5"),
    "size": ("tiny", "plain", "huge"),
    "shade": ("solid", "striped", "empty"),
    "shape": ("circle", "square", "star"),
}


def constant_rows(rng, values):
    return [[value] * 3 for value in rng.sample(range(values), 3)]


def latin_square(rng, values):
    trio = rng.sample(range(values), 3)
    shift = rng.choice((1, 2))
    return [[trio[(column + shift * row) % 3] for column in range(3)] for row in range(3)]


def rising_rows(rng, values):
    step = rng.choice((1, -1))
    starts = rng.sample(range(values), 3)
    return [[(start + step * column) % values for column in range(3)] for start in starts]


def sum_rows(rng, values):
    rows = []
    while len(rows) < 3:
        first, second = rng.randint(1, values - 1), rng.randint(1, values - 1)
        if first + second <= values and [first - 1, second - 1, first + second - 1] not in rows:
            rows.append([first - 1, second - 1, first + second - 1])
    return rows


class RavenGridEnv:
    """Complete a three by three matrix of figures whose four features follow independent laws."""

    def __init__(self, max_turns=1, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        rng = random.Random(seed)
        laws = {"count": [constant_rows, latin_square, rising_rows, sum_rows]}
        grids = {}
        for feature, values in FEATURES.items():
            law = rng.choice(laws.get(feature, [constant_rows, latin_square, rising_rows]))
            grids[feature] = [[values[k] for k in row] for row in law(rng, len(values))]
        figures = [[" ".join(grids[f][r][c] for f in FEATURES) for c in range(3)] for r in range(3)]
        self.missing = figures[2][2]
        self.graded = False
        figures[2][2] = "?"
        picture = "\n".join(" | ".join(row) for row in figures)
        choices = "; ".join(f"{feature}: {', '.join(values)}" for feature, values in FEATURES.items())
        question = (
            f"{picture}\n\nEach feature obeys a law of its own in the rows: the same along a row, each of three "
            "values once in every row and column, one step up or down the list of its values (round and round), or, "
            f"for counts only, third = first + second.\n{choices}.\nWhich figure is missing? Answer once with count, "
            "size, shade and shape in this order, as \\boxed{COUNT SIZE SHADE SHAPE}."
        )
        return question, {}

    def step(self, action):
        if self.graded:
            return "The sheet is handed in.", 0.0, True, False, {}
        self.graded = True
        start = action.rfind("\\boxed{")
        given = action[start + 7 :].split("}")[0].lower().split() if start >= 0 else []
        truth = self.missing.split()
        if given == truth:
            return "Correct.", 1.0, True, False, {}
        hits = sum(a == b for a, b in zip(given, truth, strict=False)) if len(given) == len(truth) else 0
        return f"Not correct: {hits} of 4 features fit.", 0.1 * hits, True, False, {}

    def solution(self):
        return self.missing
