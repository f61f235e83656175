"""Which task does an order get: a new one of the generator, a record, or a record's mutated child?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from spade_gym.curriculum.generators import Generator, Mutator
from spade_gym.curriculum.memory import Memory
from spade_gym.curriculum.schedules import Order
from spade_gym.curriculum.task import Task

_ATTEMPTS = 20
#: A family that repeated itself so often, for each task of it that is known, has no others (all but 5 % of them).
_REPEATS_PER_RECORD = 3


class TaskSource:
    """Finds tasks for orders, and puts new ones into the memory.

    Args:
        memory: The records.
        generator: Makes tasks; ``None`` when all were added by hand.
        rng: Source of chance.
        add: Puts a task into the memory, or says why not.
        draw: Draws a record by the sampler; returns its task id.

    Attributes:
        can_mutate: Whether the generator mutates.
        repeats: How often the generator repeated itself since it gave a new task.
    """

    def __init__(
        self,
        memory: Memory,
        generator: Generator | None,
        rng: np.random.Generator,
        *,
        add: Callable[[Task], str | None],
        draw: Callable[[], str],
    ) -> None:
        self._memory = memory
        self._generator = generator
        self._mutator = generator if isinstance(generator, Mutator) else None
        self._rng = rng
        self._add = add
        self._draw = draw
        self.can_mutate = self._mutator is not None
        self.repeats = 0

    @property
    def exhausted(self) -> bool:
        """Whether the generator gives only tasks that the memory has, as far as can be seen."""
        return self.repeats > _REPEATS_PER_RECORD * len(self._memory)

    def task_of(self, order: Order) -> Task | None:
        """Return the task of an order; ``None`` where there is none any more."""
        if order.source == "replay":
            return self._known(order.task_id)
        for _ in range(_ATTEMPTS):
            task = self._made(order)
            if task is None:
                break
            if self._add(task) is None:
                self.repeats = 0
                return task
            if task.id in self._memory:
                self.repeats += order.source == "new"
                return self._known(task.id)  # a finite family repeats itself: play the record it has
        self.repeats += order.source == "new"
        return self._known(self._draw()) if len(self._memory) else None

    def _known(self, task_id: str) -> Task | None:
        slot = self._memory.slot_of(task_id)
        return None if slot is None else self._memory.record(slot).task

    def _made(self, order: Order) -> Task | None:
        if order.source == "mutate":
            parent = self._known(order.task_id)
            return None if parent is None or self._mutator is None else self._mutator.mutate(parent, self._rng)
        return None if self._generator is None else self._generator.generate(self._rng)
