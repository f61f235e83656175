from __future__ import annotations

import numpy as np

from spade_gym.curriculum.memory import Memory
from spade_gym.curriculum.task import Outcome, Task
from spade_gym.curriculum.views import designer_examples, high_regret, intractable, mastered, summaries


def fill(rates: dict[str, tuple[float, float]]) -> Memory:
    """Ten plays in each arm of each task, on the same seeds: (share won without the hint, with it)."""
    memory = Memory(50)
    for name, (plain, hinted) in rates.items():
        slot = memory.add(Task("program", {"program": name}, skill="logic", hint="think"), now=3).slot
        for seed in range(10):
            for arm, share in (("plain", plain), ("hint", hinted)):
                won = seed < round(10 * share)
                memory.played(slot, Outcome(0, seed, float(won), won), arm, window=0)  # type: ignore[arg-type]
    return memory


RATES = {"even": (0.5, 0.9), "flat": (0.5, 0.5), "easy": (1.0, 1.0), "hard": (0.0, 0.4), "edge": (0.2, 0.5)}


def names(found) -> list[str]:
    return [item.task.value["program"] for item in found]


def test_views_sort_tasks_by_what_they_teach() -> None:
    found = summaries(fill(RATES), now=10)
    assert names(high_regret(found)) == ["even", "edge", "flat"]
    assert names(mastered(found)) == ["easy"]
    assert names(intractable(found)) == ["hard"]
    even = found[0]
    assert even.wins is not None
    assert even.regret is not None
    assert (even.wins.share, round(even.regret.value, 6), even.num_plays, even.staleness) == (0.5, 0.4, 20, 7)


def test_unplayed_tasks_are_unknown_not_zero() -> None:
    memory = Memory(5)
    memory.add(Task("program", {"program": "new"}), now=0)
    (only,) = summaries(memory, now=1)
    assert only.wins is None
    assert only.regret is None
    assert high_regret([only]) == mastered([only]) == intractable([only]) == []


def test_examples_are_of_the_skill_and_repeat_with_the_chance() -> None:
    memory = fill(RATES)
    memory.add(Task("program", {"program": "other"}, skill="spatial"), now=1)
    first = designer_examples(memory, now=10, skill="logic", rng=np.random.default_rng(1))
    again = designer_examples(memory, now=10, skill="logic", rng=np.random.default_rng(1))
    assert first == again
    assert len(first.positives) == 2
    assert set(names(first.positives)) <= {"even", "edge", "flat"}
    assert first.negative is not None
    assert first.negative.task.value["program"] in ("easy", "hard")
    empty = designer_examples(memory, now=10, skill="spatial", rng=np.random.default_rng(1))
    assert empty == ((), None)
