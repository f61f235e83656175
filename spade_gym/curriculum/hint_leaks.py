"""Does a hint teach, or does it give the answer away?

Texts alone prove nothing: options and numbers of a task occur in honest hints. So there are two signs: how much of
an instance's answer stands in the hint (:func:`answer_overlap`), and whether a hint that was written for one
instance wins others outright when it is played there (:func:`check_hint_leak`). The second is decisive.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from spade_gym.curriculum.finite import within
from spade_gym.curriculum.outcomes import Outcomes
from spade_gym.curriculum.score import Unknown
from spade_gym.curriculum.win_rates import wilson_interval

MAX_SHARE = 0.8
OVERLAP = 0.8
_TOKEN = re.compile(r"\d+(?:\.\d+)?|[^\W\d_]+|[^\w\s]")
_WRAPPER = re.compile(r"\\boxed\{(.*)\}", re.DOTALL)


class HintLeak(NamedTuple):
    """What plays of a hint on instances that it was not written for showed.

    Attributes:
        win_share: Share of those plays won with the hint, in [0, 1].
        low: Lower end of its Wilson interval.
        plain_share: Share won without the hint on the same instances; ``None`` without such plays.
        overlap: Greatest share of an answer that stands in the hint; ``None`` where no answer was given.
        leaks: ``low`` is above the bound: the hint wins outright where it should only help.
        num_plays: Hinted plays on other instances.
    """

    win_share: float
    low: float
    plain_share: float | None
    overlap: float | None
    leaks: bool
    num_plays: int


def answer_overlap(hint: str, answer: str) -> float:
    r"""Return the share of the answer's tokens that stand in the hint in one run and in order, in [0, 1].

    Tokens are words, numbers and single signs, without regard to case; a ``\boxed{…}`` around a line of the answer
    is taken off, so that a hint about boxes does not count. An answer of several lines (actions) is compared line
    by line, weighted by tokens. An empty answer has overlap 0.

    Args:
        hint: The hint's text.
        answer: The answer to one instance, such as a program's ``solution()``.
    """
    words = _tokens(hint)
    lines = [_tokens(_WRAPPER.sub(r"\1", line.strip())) for line in answer.splitlines()]
    total = sum(len(line) for line in lines)
    return sum(_longest_run(line, words) for line in lines) / total if total else 0.0


def check_hint_leak(
    outcomes: Outcomes,
    *,
    written_for: int,
    hint: str = "",
    answers: Sequence[str] = (),
    max_share: float = MAX_SHARE,
) -> HintLeak | Unknown:
    """Judge a hint by its plays on instances that it was not written for.

    A hint may help everywhere; it must not make other instances certain that the player does not win by itself.
    Formula: leaks when the Wilson interval of the hinted win share on other instances lies above ``max_share``,
    unless the plain win share on the same instances does so too.

    Args:
        outcomes: Plays of one task, with the hint (and without, for comparison).
        written_for: Seed of the instance for which the hint was written; its plays are left out.
        hint: The hint's text, for the overlap.
        answers: Answers to instances that were played, for the overlap. It is reported, never judged.
        max_share: Win share from which a win counts as outright, in [0, 1].

    Returns:
        The judgement, or unknown without hinted plays on other instances, or where they are won without the hint
        as well.

    Raises:
        ValueError: ``max_share`` is out of range.

    Source: issue 3, point 3.
    """
    within("max_share", max_share, 0.0, 1.0)
    others = outcomes.select(outcomes.seeds != written_for)
    hinted = others.with_hint
    if not len(hinted):
        return Unknown(f"the hint was played on no instance but seed {written_for}", len(outcomes))
    plain = others.plain
    plain = plain.select(np.isin(plain.seeds, hinted.seeds))
    plain_share = float(plain.wins.mean()) if len(plain) else None
    low, _ = wilson_interval(int(hinted.wins.sum()), len(hinted))
    if low > max_share and plain_share is not None and plain_share > max_share:
        return Unknown("these instances are won without the hint too", len(others))
    overlap = max((answer_overlap(hint, answer) for answer in answers), default=None)
    return HintLeak(float(hinted.wins.mean()), low, plain_share, overlap, low > max_share, len(hinted))


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text.casefold())


def _longest_run(answer: list[str], words: list[str]) -> int:
    """Length of the longest common run of tokens."""
    best, previous = 0, [0] * (len(words) + 1)
    for token in answer:
        current = [0] * (len(words) + 1)
        for j, word in enumerate(words):
            if token == word:
                current[j + 1] = previous[j] + 1
        best, previous = max(best, max(current)), current
    return best
