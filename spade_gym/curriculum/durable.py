"""A curriculum whose every outcome is kept: what ``tell`` has taken is in the store when it returns.

The store holds a journal of all that was asked, told and added, and now and then the curriculum's whole state. To
resume, the newest state is loaded and the journal after it is played again: a curriculum is a function of its settings,
its seed and the order of calls, so it comes to the same state, which is checked ticket by ticket.

Tickets that were handed out and never told of when the process died are handed out again first, oldest first: their
players died too. So a run that is killed and started again asks for the same tickets as one that was not.
"""

from __future__ import annotations

import dataclasses
import logging
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from spade_gym.curriculum.curriculum import Curriculum, EmptyCurriculum, Receipt
from spade_gym.curriculum.journal import Added, Asked, Entry, Snapshot, Told
from spade_gym.curriculum.memory_file import import_memory
from spade_gym.curriculum.run_settings import difference, settings_of
from spade_gym.curriculum.store import Store, StoreError
from spade_gym.curriculum.task import Outcome, Task, Ticket

logger = logging.getLogger(__name__)

#: A state is saved at the latest when the journal since the last one is this share as long as the state itself.
_STATE_CHARS_PER_ENTRY = 500


class DurableCurriculum:
    """Asks and tells as the curriculum inside, and keeps everything in a store.

    Asks are written with the next tell: a ticket that was lost with its process is handed out again anyway. Not
    thread-safe; ``CurriculumServer`` serves it to many.

    Args:
        curriculum: With the same settings and seed as when the store was begun. In a store that holds a run, its
            state is replaced by the run's.
        store: Where to keep everything; it is closed with this, and also when this cannot be made.
        snapshot_every: Entries of the journal between two whole states, at least (more for large states, so that
            saving them costs a constant share).
        reissue: Hand out again, first, what was out when the run ended.

    Raises:
        StoreError: The store is closed, or holds a run with other settings, or one that does not come out the same
            when it is played again.
        ValueError: ``snapshot_every`` is below 1.
    """

    def __init__(
        self, curriculum: Curriculum, store: Store, *, snapshot_every: int = 2000, reissue: bool = True
    ) -> None:
        try:
            self._open(curriculum, store, snapshot_every, reissue)
        except BaseException:
            store.close()
            raise

    def _open(self, curriculum: Curriculum, store: Store, snapshot_every: int, reissue: bool) -> None:
        if snapshot_every < 1:
            raise ValueError(f"snapshot_every must be at least 1, got {snapshot_every!r}")
        if store.closed:
            raise StoreError(f"{store.path} was closed, by its owner or by a failed start: open it again with Store(…)")
        self.curriculum = curriculum
        self.store = store
        self.process_id = curriculum.process_id
        self._snapshot_every = snapshot_every
        self._replayable = bool(getattr(curriculum.generator, "replayable", True))
        self._buffer: list[Entry] = []
        self._batches = 0
        self._since_snapshot = 0
        self._entries_wanted = snapshot_every
        self._failure: BaseException | None = None
        self._closed = False
        self._place = store.last()
        found = store.snapshot()
        if found is None:
            self.snapshot()
        else:
            self._resume(found)
        self._again: deque[Ticket] = deque(curriculum.pending_tickets() if reissue else ())

    # ---- the two calls

    def ask(self, actor: str = "") -> Ticket:
        """Return the next ticket; after a resume first those that were out.

        Raises:
            EmptyCurriculum: Nothing can be handed out.
            StoreError: An earlier write failed.
        """
        self._check()
        while self._again:
            ticket = self._again.popleft()
            if self.curriculum.is_pending(ticket.id):
                return dataclasses.replace(ticket, actor=actor)
        planning = not self._replayable and not self.curriculum.num_queued
        try:
            ticket = self.curriculum.ask(actor)
        except EmptyCurriculum:
            self._write(Asked(self._next(), actor, None))
            raise
        except BaseException:
            self._entries_wanted = 0  # the journal cannot tell how far this came: save the state next time
            raise
        self._write(Asked(self._next(), actor, ticket))
        if planning:
            self.snapshot()  # what was just made cannot be made again by playing the journal
        return ticket

    def tell(self, outcome: Outcome) -> Receipt:
        """Learn how a play went; it is kept when this returns (inside ``batch``: when the batch ends).

        Raises:
            ValueError: The outcome's total is outside the declared range; it was not taken.
            StoreError: It could not be written; this curriculum then takes nothing more.
        """
        self._check()
        try:
            receipt = self.curriculum.tell(outcome)
        except BaseException:
            self._entries_wanted = 0  # as in ``ask``
            raise
        self._write(Told(self._next(), outcome, receipt))
        self._commit()
        return receipt

    def tell_many(self, outcomes: Sequence[Outcome]) -> list[Receipt]:
        """Learn how several plays went, in one commit.

        Raises:
            ValueError: An outcome was refused; those before it were taken and are kept.
            StoreError: As ``tell``.
        """
        with self.batch():
            return [self.tell(outcome) for outcome in outcomes]

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Write all that is asked and told inside in one commit, at the end, also when an error leaves it."""
        self._batches += 1
        try:
            yield
        finally:
            self._batches -= 1
            self._commit()

    def add(self, task: Task) -> str | None:
        """Put a task into the memory by hand, for good when this returns; ``None``, or why it was refused."""
        self._check()
        reason = self.curriculum.add(task)
        self._write(Added(self._next(), task, reason))
        self._commit()
        return reason

    # ---- keeping

    def snapshot(self) -> None:
        """Save the whole state now; call it after changing the curriculum by other ways than ask, tell and add."""
        self._check()
        state = self.curriculum.state_dict()
        snapshot = Snapshot(self._next(), settings_of(self.curriculum), state)
        size = self._append(snapshot)
        self._since_snapshot = 0
        self._entries_wanted = max(self._snapshot_every, size // _STATE_CHARS_PER_ENTRY)

    def import_memory(self, path: Path | str) -> int:
        """Take in the records of a JSON file (``memory_file.export_memory``) that pass the gates; return how many."""
        self._check()
        inner = self.curriculum
        added = import_memory(inner.memory, path, now=inner.num_asks, gates=inner.gates)
        self.snapshot()
        return added

    def state_dict(self) -> dict[str, Any]:
        """The curriculum's state."""
        return self.curriculum.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to a state; what the store holds stays there, and what comes now is counted from this state."""
        self._check()
        self.curriculum.load_state_dict(state)
        self._again = deque(self.curriculum.pending_tickets())
        self.snapshot()

    def close(self) -> None:
        """Save the state and close the store; harmless when repeated."""
        if self._closed:
            return
        try:
            if self._failure is None and self._since_snapshot:
                self.snapshot()
        finally:
            self._closed = True
            self.store.close()

    def __enter__(self) -> DurableCurriculum:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def return_range(self) -> tuple[float, float]:
        """The curriculum's declared range of returns."""
        return self.curriculum.return_range

    # ---- writing

    def _next(self) -> int:
        self._place += 1
        return self._place

    def _write(self, entry: Entry) -> None:
        self._buffer.append(entry)
        self._since_snapshot += 1

    def _commit(self) -> None:
        if self._batches or not self._buffer:
            return
        if self._since_snapshot >= self._entries_wanted:
            self.snapshot()
        else:
            self._append(None)

    def _append(self, snapshot: Snapshot | None) -> int:
        try:
            size = self.store.append(self._buffer, snapshot)
        except BaseException as error:
            self._failure = error
            raise
        self._buffer.clear()
        return size

    def _check(self) -> None:
        if self._failure is not None:
            raise StoreError(
                f"an earlier write to {self.store.path} failed ({self._failure}), so nothing more is taken; "
                "put that right and start the run again: it goes on from what was kept"
            )
        if self._closed:
            raise StoreError(f"the curriculum of {self.store.path} is closed")

    # ---- resuming

    def _resume(self, found: Snapshot) -> None:
        other = difference(found.settings, settings_of(self.curriculum))
        if other is not None:
            raise StoreError(
                f"the run in {self.store.path} was begun with {other}: start it with those settings, or begin "
                "another run in another folder (export and import its memory)"
            )
        self.curriculum.load_state_dict(found.state)
        entries = self.store.journal(found.n)
        for entry in entries:
            self._replay(entry)
        self._since_snapshot = len(entries)
        logger.info("resumed %s: state %d and %d entries after it", self.store.path, found.n, len(entries))

    def _replay(self, entry: Entry) -> None:
        same: bool
        if isinstance(entry, Asked):
            try:
                ticket = self.curriculum.ask(entry.actor)
            except EmptyCurriculum:
                ticket = None
            same = _same(ticket, entry.ticket)
        elif isinstance(entry, Told):
            same = self.curriculum.tell(entry.outcome) == entry.receipt
        else:
            same = self.curriculum.add(entry.task) == entry.reason
        if not same:
            raise StoreError(
                f"{self.store.path} cannot be resumed: entry {entry.n} of its journal comes out differently now. A "
                "generator, gate or scorer has changed, or a generator draws from elsewhere than from `rng` (set "
                "`replayable = False` in its class: what it makes is then saved at once). The store was left as it is"
            )


def _same(now: Ticket | None, before: Ticket | None) -> bool:
    if now is None or before is None:
        return now is before
    return (now.id, now.task.id, now.seeds, now.arm, now.train) == (
        before.id, before.task.id, before.seeds, before.arm, before.train
    )  # fmt: skip
