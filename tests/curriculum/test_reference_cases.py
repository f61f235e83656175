"""Every row of the reference's values: reproduced, overruled by the method, or listed with the reason why not."""

import json
from pathlib import Path

import numpy as np
import pytest

from spade_gym.curriculum.average_scorers import learning_potential, moving_average
from spade_gym.curriculum.designer_reward import designer_advantages, designer_scale
from spade_gym.curriculum.difficulty_scorers import variance_target
from spade_gym.curriculum.episode_return import episode_return
from spade_gym.curriculum.generators import SlidingDifficulty
from spade_gym.curriculum.outcomes import Outcomes
from spade_gym.curriculum.plateau_scorers import plateau, spade_score
from spade_gym.curriculum.progress_scorers import micro_progress
from spade_gym.curriculum.regret_scorers import hint_regret
from spade_gym.curriculum.score import Score, Unknown
from spade_gym.curriculum.task import Outcome, Task
from spade_gym.curriculum.value_scorers import discounted_returns
from spade_gym.designer.skills import skills_of_epoch
from spade_gym.rollout.actions import action_of
from spade_gym.sandbox.tool_calls import answers_match, parse_tool_calls
from spade_gym.selfplay.advantages import group_advantages

ROWS = json.loads((Path(__file__).parents[1] / "data" / "reference-cases.json").read_text())


def plays(plain, hinted=(), num_plays=8):
    """Outcomes with the given mean return in each window, and hinted ones in window 0."""
    plain = list(plain.items()) if isinstance(plain, dict) else list(enumerate(plain))
    rows = [(value, False, window) for window, value in plain for _ in range(num_plays)]
    rows += [(value, True, 0) for value in hinted for _ in range(num_plays)]
    rows.sort(key=lambda row: row[2])
    returns, arms, windows = zip(*rows, strict=True) if rows else ((), (), ())
    return Outcomes.of(returns, hinted=arms, windows=windows)


def raw(outcomes):
    return spade_score(outcomes, of="return")


def wls(weights, means):
    rows = [(mean, window) for window, (n, mean) in enumerate(zip(weights, means, strict=True)) for _ in range(n)]
    return micro_progress(Outcomes.of([m for m, _ in rows], windows=[w for _, w in rows])).value


def three_games():
    games = [plays([0.5] * 4, [0.65]), plays([1.0] * 4, [1.0]), plays([0.0] * 4, [0.0])]
    scores = [raw(game) for game in games]
    gains = designer_advantages(scores, ["a"] * 3, scale=32)
    return [[score.value, gain] for score, gain in zip(scores, gains, strict=True)]


def two_skills():
    scores = [Score(value, None, 8) for value in (1.0, 0.0, 0.6)]
    gains = designer_advantages(scores, ["a", "a", "b"], scale=32)
    return [[score.value, gain] for score, gain in zip(scores, gains, strict=True)]


def regret_and_slope():
    game = plays([0.0, 0.6], [0.3])
    return 0.5 * hint_regret(game).value / 0.15 + 0.5 * micro_progress(game).value / 0.10


def floored_regrets():
    regrets = [hint_regret(plays([plain], [hinted])) for plain, hinted in ((0.2, 0.8), (0.5, 0.1))]
    floored = [Score(max(score.value, 0.0), None, score.n) for score in regrets]
    return list(designer_advantages(floored, ["a", "a"], scale=10))


def micro_rewards():
    scores = [micro_progress(plays(game)) for game in ({0: 0.0, 2: 1.0}, {0: 0.25, 1: 0.75})]
    return [*designer_advantages(scores, ["a", "a"], scale=4), sum(score.value for score in scores) / 2]


def delayed_potential():
    scores = [learning_potential(plays([value]), initial=0.5) for value in (0.2, 1.0)]
    averages = [float(moving_average([value], rate=0.85, initial=0.5)[0]) for value in (0.2, 1.0)]
    return [*designer_advantages(scores, ["a", "a"], scale=32), sum(averages) / 2]


def averages_of_three():
    values = [0.2, 0.6, 0.4]
    return [float(moving_average(values, rate=rate)[-1]) for rate in (0.98, 0.85)]


def sliding(*difficulties):
    """The window (low, high) and the attempts at its top after 8 wins at each difficulty."""
    window = SlidingDifficulty()
    for difficulty in difficulties:
        for _ in range(8):
            window.observe(Task("reset", {"difficulty": difficulty}), Outcome(0, 0, 1.0, True))
    return [window.low, window.high, window.state_dict()["plays"]]


def extremes(gains):
    """The advantages of the worst and the best, where the row gives only these."""
    return [gains[0], gains[-1]]


BY_FUNCTION = {
    "grpo z-score (pop std+1e-8)": lambda row: (
        group_advantages(row) if len(row) == 3 else extremes(group_advantages(row))
    ),
    "sliding 8/8 wins at 0": lambda row: sliding(0),
    "sliding then 8/8 at 1..5": lambda row: sliding(*range(6))[:2],
    "sliding off-high plays ignored": lambda row: sliding(*range(6), 5),
    "plateau(.4,.6,.25)": lambda row: plateau(row),
    "plateau(.2,.4,.2)": lambda row: plateau(row, low=0.2, high=0.4, ramp=0.2),
    # The reference pays the last step's reward: the rule `last`, which the paper recipes force.
    "episode_reward": lambda row: episode_return(row[0], terminated=row[1], rule="last"),
    "env_reward_scale(nE,nA,K,cap)": lambda row: designer_scale(*row[:3], max_scale=row[3]),
    "variance_reward": lambda row: variance_target(Outcomes.of(row)).value,
    "returns gamma .99": lambda row: discounted_returns(row, gamma=0.99).tolist(),
    "blend .6/.4 (raw,adv) scale 32; plays {offset:mean}": lambda row: three_games(),
    "blend two skills adv scale 32": lambda row: two_skills(),
    # Not a formula of the method: put together from its parts.
    "blend default weights (.5 regret/.15 + .5 slope/.10)": lambda row: regret_and_slope(),
    "delayed regret scale 10": lambda row: floored_regrets(),
    "micro_lp scale 4 (rewards.., mean raw)": lambda row: micro_rewards(),
    "delayed LP scale 32, mu0=.5, plays .2 & 1.0 -> adv, mu_slow": lambda row: delayed_potential(),
    "EMA .5 : 1,0,1": lambda row: moving_average([1, 0, 1], rate=0.5).tolist(),
}
BY_ROW = {
    ("blend one game raw", "off0=.25, off1-3=.75 (win .625), hint .4"): lambda: (
        raw(plays([0.25, 0.75, 0.75, 0.75], [0.4])).value
    ),
    ("blend one game raw", "win .5, hint .575 (regret .075)"): lambda: raw(plays([0.5], [0.575])).value,
    # Told as returns of -1; a real crash is never told.
    ("blend one game raw", "rewards -1 x8 (crash), hint -1"): lambda: raw(plays([-1.0], [-1.0])).value,
    ("WLS slope micro_lp", "n=4,1,1 y=1,0,1"): lambda: wls([4, 1, 1], [1, 0, 1]),
    ("WLS slope micro_lp", "y=.25,.5,.25,.75 n=8"): lambda: wls([8] * 4, [0.25, 0.5, 0.25, 0.75]),
}
#: Rows where the method overrules the reference (section 10): unknown is not 0.
OVERRULED = {
    ("blend one game raw", "win .3, no hint entry"): lambda: raw(plays([0.3])),
    ("blend one game raw", "no plays, hint .9"): lambda: raw(plays([], [0.9])),
}
#: Rows whose values are no numbers: what is asked for, compared as it is.
TEXTS = {
    "skills 3 of 6, K=4, rollout": lambda row: "".join(skills_of_epoch(row // 4, "ABCDEF")),
    "skills 4 of 6, K=4, rollout 4": lambda row: "".join(skills_of_epoch(row // 4, "ABCDEF", count=4)),
    "tool_calls": lambda row: [
        [call.name, call.arguments] for call in parse_tool_calls(row) if call.arguments is not None
    ],
    "tool answer check vs '1,200.50'": lambda row: answers_match(row, "1,200.50"),
}
#: What the method makes of a row that it overrules: the last box counts.
LAST_BOX = {r"a \boxed{1} b \boxed{2}": r"\boxed{2}"}
#: Rows that other tests answer for, or that nobody can.
ELSEWHERE = {
    "tool step (reward,term,trunc) turn 1": "overruled (0, not -0.1): tests/sandbox/test_tool_use.py plays it",
    "tool step (reward,term,trunc) turn 2": "incomplete input (no program): tests/sandbox/test_tool_use.py plays one",
    "tool step (reward,term,trunc) turn 3": "incomplete input (no program): tests/sandbox/test_tool_use.py plays one",
    "memory cap 3 of 4 -> files, snippet": "incomplete input: the four records are not given",
    "memory seeds/neg pool": "incomplete input: the records are not given",
    "memory neg text": "incomplete input: the record is not given",
    "micro_lp 3 steps 0,.5,1 -> mean raw": "incomplete input: the plays of each update are not given",
    "LP controller pick 1 of p(0,1),q(1,1)": "incomplete input: no formula for the controller",
    "LP .98/.85 updates .2,.6,.4 -> rho": "the method's |mean - slow average| gives 0, .06, .021 (or 0, .4, .14)",
    "LP mu_fast,mu_slow,signed": "the averages are reproduced below; `signed` is the last rho",
}


def key(row):
    return row["function"], json.dumps(row["input"]) if isinstance(row["input"], dict | list) else row["input"]


@pytest.mark.parametrize("row", [row for row in ROWS if row["function"] in BY_FUNCTION], ids=str)
def test_rows_of_functions(row):
    check(BY_FUNCTION[row["function"]](row["input"]), row["expected"])


@pytest.mark.parametrize("row", [row for row in ROWS if key(row) in BY_ROW], ids=str)
def test_rows_in_words(row):
    check(BY_ROW[key(row)](), row["expected"])


@pytest.mark.parametrize("name", OVERRULED)
def test_what_is_unknown_is_not_zero(name):
    assert isinstance(OVERRULED[name](), Unknown)


def test_the_averages_of_the_learning_potential_row():
    row = next(row for row in ROWS if row["function"] == "LP mu_fast,mu_slow,signed")
    check(averages_of_three(), row["expected"][:2])


def test_episodes_are_worth_their_sum_by_default():
    # The rows in which sum and last differ, by the method's own rule.
    assert episode_return([0.3, 0.6], terminated=True) == pytest.approx(0.9)
    assert episode_return([1.0, -0.1], terminated=True) == pytest.approx(0.9)


@pytest.mark.parametrize("row", [row for row in ROWS if row["function"] in TEXTS], ids=str)
def test_rows_of_texts(row):
    assert TEXTS[row["function"]](row["input"]) == row["expected"]


@pytest.mark.parametrize("row", [row for row in ROWS if row["function"] == "boxed -> parse_action"], ids=str)
def test_rows_of_boxes(row):
    content, action = row["expected"]
    found = action_of(row["input"], "multi_turn", most_chars=100)
    assert found == LAST_BOX.get(row["input"], action)
    assert (content is None) == ("boxed" not in found)


def test_every_row_is_accounted_for():
    known = {*BY_FUNCTION, *TEXTS, *ELSEWHERE, "boxed -> parse_action"}
    missing = [row for row in ROWS if row["function"] not in known and key(row) not in {*BY_ROW, *OVERRULED}]
    assert missing == []


def check(found, expected):
    assert np.ravel(found).tolist() == pytest.approx(np.ravel(expected).tolist(), abs=1e-6)
