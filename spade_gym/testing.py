"""Does a part keep its promises? Conformance checks, run by built-in parts and by third parties' alike.

Each check raises ``AssertionError`` with what was expected and what was found::

    from spade_gym.testing import check_scorer
    check_scorer(my_scorer)
"""

from __future__ import annotations

import copy
import dataclasses
import json
import math
from collections.abc import Callable

import numpy as np

from spade_gym.curriculum.generators import Generator, Mutator
from spade_gym.curriculum.memory import Memory, Scorer
from spade_gym.curriculum.outcomes import Outcomes
from spade_gym.curriculum.samplers import Sampler
from spade_gym.curriculum.schedules import Desk, Schedule
from spade_gym.curriculum.score import Score, Unknown
from spade_gym.curriculum.task import Outcome, Task
from spade_gym.testing_designers import check_designer as check_designer
from spade_gym.testing_models import check_language_model as check_language_model
from spade_gym.testing_trainers import check_trainer as check_trainer

_HISTORIES = (
    Outcomes.of([]),
    Outcomes.of([0.5]),
    Outcomes.of([0.0] * 8),
    Outcomes.of([1.0] * 8),
    Outcomes.of([0.0, 1.0] * 32, windows=[number // 8 for number in range(64)], values=[0.25] * 64),
    Outcomes.of([0.0, 1.0, 1.0, 1.0] * 4, hinted=[False, True] * 8, seeds=[number // 2 for number in range(16)]),
)


def check_scorer(scorer: Scorer) -> None:
    """Check a scorer: pure, finite or unknown with a reason, on empty, single, constant and mixed histories."""
    for outcomes in _HISTORIES:
        before = copy.deepcopy(outcomes)
        result = scorer(outcomes)
        assert isinstance(result, Score | Unknown), f"a scorer must return Score or Unknown, got {result!r}"
        if isinstance(result, Unknown):
            assert result.reason, "Unknown needs a reason"
        else:
            assert math.isfinite(result.value), f"a score must be finite, got {result.value!r}; return Unknown instead"
            error = result.standard_error
            assert error is None or (math.isfinite(error) and error >= 0), (
                f"standard_error must be None or ≥ 0: {error!r}"
            )
            assert 0 < result.n <= len(outcomes), f"n must be from 1 to {len(outcomes)} plays, got {result.n!r}"
        assert scorer(outcomes) == result, "a scorer must be pure: the same plays gave two results"
        for name in (item.name for item in dataclasses.fields(Outcomes)):
            same = np.array_equal(
                getattr(outcomes, name), getattr(before, name), equal_nan=name in ("returns", "values")
            )
            assert same, f"a scorer must not change its input; it changed {name}"
    assert isinstance(scorer(_HISTORIES[0]), Unknown), "of no plays nothing is known: return Unknown, never a number"


def check_sampler(sampler: Sampler) -> None:
    """Check a sampler: probabilities of the right shape that sum to 1, also when no score is known."""
    for num_records, num_scored in ((1, 0), (1, 1), (7, 0), (7, 3), (300, 300)):
        memory = _memory(num_records, num_scored)
        found = sampler.probabilities(memory, now=num_records + 5)
        assert found.shape == (num_records,), f"probabilities must have shape ({num_records},), got {found.shape}"
        assert np.isfinite(found).all(), "probabilities must be finite"
        assert (found >= 0).all(), "probabilities must not be negative"
        assert abs(float(found.sum()) - 1) < 1e-9, f"probabilities must sum to 1, got {found.sum()!r}"
        again = sampler.probabilities(memory, now=num_records + 5)
        assert np.array_equal(found, again), "probabilities must depend on the memory and the time alone"
    _check_state(sampler)


def _memory(num_records: int, num_scored: int) -> Memory:
    memory = Memory(max(num_records, 1))
    for number in range(num_records):
        memory.add(Task("reset", {"number": number}), now=number)
    for slot in range(num_scored):
        memory.played(slot, Outcome(0, 0, (slot % 5) / 4), "plain", window=0)
    memory.rescore(
        lambda outcomes: Score(float(outcomes.returns.mean()), None, 1) if len(outcomes) else Unknown("none")
    )
    return memory


def check_generator(make: Callable[[], Generator]) -> None:
    """Check a generator: the same tasks from the same chance, JSON values, mutants with their lineage, a state.

    Args:
        make: Makes a fresh generator.
    """
    first, second = make(), make()
    rng, twin = np.random.default_rng(5), np.random.default_rng(5)
    tasks = [first.generate(rng) for _ in range(20)]
    assert tasks == [second.generate(twin) for _ in range(20)], "the same chance must give the same tasks"
    known = [task for task in tasks if task is not None]
    assert known, "a fresh generator must give at least one task"
    for task in known:
        assert Task.from_json(json.loads(json.dumps(task.to_json()))) == task, f"{task} does not survive JSON"
        if isinstance(first, Mutator):
            child = first.mutate(task, rng)
            assert child is None or (child.parent == task.id and child.mutation), "a mutant names parent and mutation"
    _check_state(first)


def check_schedule(make: Callable[[], Schedule]) -> None:
    """Check a schedule: it always plans something, only records that are there, and repeats itself from its state.

    Args:
        make: Makes a fresh schedule.
    """
    schedule = make()
    rng = np.random.default_rng(3)
    memory = Memory(50)
    for number in range(200):
        desk = Desk(memory, rng, lambda: memory.record(int(memory.slots()[0])).task.id, can_mutate=True)
        orders = schedule.plan(desk)
        assert orders, "a schedule must plan at least one order"
        for place, order in enumerate(orders):
            assert order.repeats >= 1, f"an order needs at least one play, got {order!r}"
            if order.source == "new":
                memory.add(Task("reset", {"number": 1000 * number + place}), now=number)
            else:
                assert order.task_id in memory, f"{order!r} names a record that is not there"
    _check_state(schedule)


def _check_state(part: object) -> None:
    if hasattr(part, "state_dict"):
        state = json.loads(json.dumps(part.state_dict()))
        part.load_state_dict(state)  # type: ignore[attr-defined]
        assert json.loads(json.dumps(part.state_dict())) == state, "a state must survive JSON and loading"
