"""The environment memory: records of tasks with what was played of them, and who has to leave when it is full.

Numbers that samplers need for all records at once lie in arrays, by slot; a slot is used again after an eviction.
Scores are computed when they are asked for, and only for records that were played since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from spade_gym.curriculum.finite import whole_number
from spade_gym.curriculum.outcomes import Outcomes
from spade_gym.curriculum.play_log import Log
from spade_gym.curriculum.score import Score, Unknown
from spade_gym.curriculum.task import Arm, Outcome, Task

Eviction = Literal["oldest", "lowest-support", "lowest-score"]
Scorer = Callable[[Outcomes], Score | Unknown]
_ARRAYS = ("_scores", "_errors", "_rates", "_support", "_born", "_asked", "_serials", "_alive")


class Record(NamedTuple):
    """One task in the memory.

    Attributes:
        task: The task.
        log: Its plays.
        born: Number of the ask at which it came in.
    """

    task: Task
    log: Log
    born: int


class Full(NamedTuple):
    """What ``add`` did beside adding: the record that left, if any."""

    slot: int
    evicted: Record | None


class Memory:
    """Records by slot.

    Args:
        capacity: Most records at a time.
        eviction: Who leaves a full memory: the ``oldest``, the one with the fewest plays (``lowest-support``), or
            the one with the ``lowest-score`` (unknown counts lowest). Ties: the oldest. In the last two, a record that
            nothing is known of yet is spared for ``capacity`` asks after it was handed out: its outcome may be coming.
        plays_kept: Plays kept of each record.

    Attributes:
        next_serial: How many records have come in so far.
        version: Grows with every change.
        now: Number of the last ask that it heard of.

    Raises:
        ValueError: A capacity below 1, or an unknown eviction.
    """

    def __init__(self, capacity: int = 200, *, eviction: Eviction = "oldest", plays_kept: int = 128) -> None:
        whole_number("capacity", capacity, least=1)
        whole_number("plays_kept", plays_kept, least=1)
        if eviction not in get_args(Eviction):
            raise ValueError(f"eviction must be one of {', '.join(get_args(Eviction))}, got {eviction!r}")
        self.capacity = capacity
        self.eviction = eviction
        self.plays_kept = plays_kept
        self._records: list[Record | None] = []
        self._slot_of: dict[str, int] = {}
        self._free: list[int] = []
        self._dirty: set[int] = set()
        size = min(capacity, 256)
        self._scores, self._errors, self._rates = (np.full(size, np.nan) for _ in range(3))
        self._support, self._born, self._asked, self._serials = (np.zeros(size, dtype=np.int64) for _ in range(4))
        self.next_serial = 0
        self._alive = np.zeros(size, dtype=np.bool_)
        self._slots: npt.NDArray[np.int64] | None = None
        self.version = self.now = 0

    def __len__(self) -> int:
        return len(self._slot_of)

    def __iter__(self) -> Iterator[Record]:
        return (record for record in self._records if record is not None)

    def __contains__(self, task_id: object) -> bool:
        return task_id in self._slot_of

    def slot_of(self, task_id: str) -> int | None:
        """Slot of a task, or ``None`` when it is not here (any more)."""
        return self._slot_of.get(task_id)

    def record(self, slot: int) -> Record:
        """The record in a slot."""
        record = self._records[slot]
        if record is None:
            raise KeyError(f"slot {slot} of the memory is empty")
        return record

    def task_id(self, slot: int) -> str | None:
        """Id of the task in a slot; ``None`` when the slot is empty."""
        record = self._records[slot]
        return None if record is None else record.task.id

    # ---- changing

    def add(self, task: Task, *, now: int) -> Full:
        """Take in a task; a full memory loses a record first.

        Args:
            task: A task that is not here yet.
            now: Number of the present ask.

        Raises:
            ValueError: It is here already.
        """
        if task.id in self._slot_of:
            raise ValueError(f"the task {task.id} is in the memory already")
        evicted = self._evict(now) if len(self) >= self.capacity else None
        slot = self._free.pop() if self._free else len(self._records)
        record = Record(task, Log(self.plays_kept), now)
        if slot == len(self._records):
            self._records.append(record)
            if slot >= len(self._alive):
                self._grow()
        else:
            self._records[slot] = record
        self._slot_of[task.id] = slot
        self._scores[slot] = self._errors[slot] = self._rates[slot] = np.nan
        self._support[slot] = 0
        self._born[slot] = self._asked[slot] = self.now = now
        self._serials[slot] = self.next_serial
        self.next_serial += 1
        self._alive[slot] = True
        self._changed(slot)
        return Full(slot, evicted)

    def _evict(self, now: int) -> Record:
        slots = self.slots()
        if self.eviction != "oldest":
            key = (self._support if self.eviction == "lowest-support" else self._scores)[slots].astype(np.float64)
            unknown = np.isnan(key) | (self._support[slots] == 0)
            waiting = now - self._asked[slots] < self.capacity
            key[unknown] = np.where(waiting[unknown], np.inf, -np.inf)
            slots = slots[key == key.min()]
        return self.remove(int(slots[self._serials[slots].argmin()]))

    def remove(self, slot: int) -> Record:
        """Take a record out."""
        record = self.record(slot)
        self._records[slot] = None
        del self._slot_of[record.task.id]
        self._alive[slot] = False
        self._free.append(slot)
        self._dirty.discard(slot)
        self._slots = None
        self.version += 1
        return record

    def _grow(self) -> None:
        for name in _ARRAYS:
            old = getattr(self, name)
            fresh = np.zeros(min(self.capacity, 2 * len(old)), dtype=old.dtype)
            fresh[: len(old)] = old
            setattr(self, name, fresh)

    def _changed(self, slot: int) -> None:
        self._dirty.add(slot)
        self._slots = None if self._slots is not None and not self._alive[slot] else self._slots
        self.version += 1

    def asked(self, slot: int, *, now: int) -> None:
        """Note that a ticket for a record went out."""
        self._asked[slot] = self.now = now

    def played(self, slot: int, outcome: Outcome, arm: Arm, *, window: int) -> None:
        """Write a valid outcome into a record."""
        value = np.nan if outcome.value is None else outcome.value
        self.record(slot).log.append(
            outcome.total, outcome.won, arm == "hint", outcome.seed, window, outcome.length, value,
            outcome.policy_version,
        )  # fmt: skip
        self._support[slot] += 1
        self._dirty.add(slot)
        self.version += 1

    def restore(self, slot: int, *, num_plays: int, staleness: int) -> None:
        """Give a record the counts that it had in another memory.

        Args:
            slot: The record, with the plays that were kept.
            num_plays: Valid plays ever, at least those.
            staleness: Asks since it was last handed out.
        """
        self.record(slot).log.num_plays = self._support[slot] = num_plays
        self._asked[slot] = self.now - staleness

    # ---- looking

    def slots(self) -> npt.NDArray[np.int64]:
        """Slots in use, ascending, shape (m,)."""
        if self._slots is None or len(self._slots) != len(self):
            self._slots = np.flatnonzero(self._alive)
        return self._slots

    def rescore(self, scorer: Scorer) -> None:
        """Bring scores and win rates up to date for records that changed since the last call."""
        for slot in sorted(self._dirty):
            log = self.record(slot).log
            self._rates[slot] = log.win_rate
            result = scorer(log.outcomes())
            value, error = (result.value, result.standard_error) if isinstance(result, Score) else (np.nan, None)
            self._scores[slot] = value
            self._errors[slot] = np.nan if error is None else error
        self._dirty.clear()

    @property
    def scores(self) -> npt.NDArray[np.float64]:
        """Scores of ``slots()``, (m,), NaN where unknown; as of the last ``rescore``."""
        return self._scores[self.slots()]

    @property
    def standard_errors(self) -> npt.NDArray[np.float64]:
        """Standard errors of the scores, (m,), NaN where there is none."""
        return self._errors[self.slots()]

    @property
    def support(self) -> npt.NDArray[np.int64]:
        """Number of valid plays, (m,)."""
        return self._support[self.slots()]

    @property
    def win_rates(self) -> npt.NDArray[np.float64]:
        """Share won of the last 16 plays without the hint, (m,), NaN without any; as of the last ``rescore``."""
        return self._rates[self.slots()]

    @property
    def serials(self) -> npt.NDArray[np.int64]:
        """A number for each record that no other record has had, (m,), ascending with the order of coming in."""
        return self._serials[self.slots()]

    @property
    def last_asked(self) -> npt.NDArray[np.int64]:
        """Number of the ask at which each record was last handed out, (m,)."""
        return self._asked[self.slots()]

    @property
    def staleness(self) -> npt.NDArray[np.int64]:
        """Asks since each record was last handed out, (m,)."""
        return self.now - self.last_asked

    # ---- saving

    def state_dict(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        return {
            "free": list(self._free),
            "version": self.version,
            "now": self.now,
            "next_serial": self.next_serial,
            "dirty": sorted(self._dirty),
            "records": [
                None
                if record is None
                else {
                    "task": record.task.to_json(), "log": record.log.state_dict(), "born": record.born,
                    "asked": int(self._asked[slot]), "support": int(self._support[slot]),
                    "score": _or_none(self._scores[slot]), "error": _or_none(self._errors[slot]),
                    "rate": _or_none(self._rates[slot]), "serial": int(self._serials[slot]),
                }
                for slot, record in enumerate(self._records)
            ],
        }  # fmt: skip

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Become what ``state_dict`` described; the settings (capacity, eviction) stay."""
        self.__init__(self.capacity, eviction=self.eviction, plays_kept=self.plays_kept)  # type: ignore[misc]
        for slot, data in enumerate(state["records"]):
            self._records.append(None)
            if slot >= len(self._alive):
                self._grow()
            if data is None:
                continue
            task = Task.from_json(data["task"])
            log = Log.from_state(data["log"], self.plays_kept)
            self._records[slot] = Record(task, log, data["born"])
            self._slot_of[task.id] = slot
            self._alive[slot] = True
            self._born[slot], self._asked[slot], self._support[slot] = data["born"], data["asked"], data["support"]
            self._scores[slot] = np.nan if data["score"] is None else data["score"]
            self._errors[slot] = np.nan if data["error"] is None else data["error"]
            self._rates[slot] = np.nan if data["rate"] is None else data["rate"]
            self._serials[slot] = data["serial"]
        self._free = list(state["free"])
        self._dirty = set(state["dirty"])
        self.version, self.now, self.next_serial = state["version"], state["now"], state["next_serial"]


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
