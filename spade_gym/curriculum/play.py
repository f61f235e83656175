"""A play of a ticket: what it is, what its steps add up to, and the outcome that comes of it."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from spade_gym.curriculum.client import Client
from spade_gym.curriculum.curriculum import Receipt
from spade_gym.curriculum.service import AsksAndTells
from spade_gym.curriculum.task import Outcome, Task, Ticket
from spade_gym.errors import ProgramFault, SpadeError
from spade_gym.types import Status

logger = logging.getLogger(__name__)

#: Says whether an episode was won, from its last info and its total.
Success = Callable[[Mapping[str, Any], float], bool] | float
_TOP_SHARE = 1e-3
_SEEDS = 1 << 31


class Play(NamedTuple):
    """One seed of a ticket, to be played once.

    Attributes:
        ticket: The ticket.
        seed: Seed of the instance.
    """

    ticket: Ticket
    seed: int

    @property
    def labels(self) -> dict[str, Any]:
        """What is added to every info of the play; one type per key for ever."""
        return {
            "task_id": self.ticket.task.id, "ticket": self.ticket.id, "arm": self.ticket.arm,
            "train": self.ticket.train, "instance_seed": self.seed,
        }  # fmt: skip


class CurriculumPlays:
    """Plays of a curriculum's tickets, seed after seed.

    Args:
        curriculum: A ``Curriculum``, a ``DurableCurriculum``, a server (in its own process), a client, or the
            address of a server.
        actor: Name of the actor.
        tells: Whether outcomes are told at all.

    Raises:
        TypeError: It neither asks nor is an address.
        SpadeError: It is a copy of another process's curriculum.
    """

    def __init__(self, curriculum: AsksAndTells | str, *, actor: str = "", tells: bool = True) -> None:
        self.owned = isinstance(curriculum, str)
        self.curriculum: Any = Client(curriculum, actor=actor) if isinstance(curriculum, str) else curriculum
        for name in ("ask", "tell", "return_range"):
            if not hasattr(type(self.curriculum), name) and not hasattr(self.curriculum, name):
                raise TypeError(
                    f"curriculum must be a Curriculum, DurableCurriculum, CurriculumServer, Client or the address of a "
                    f"server (text), got {type(curriculum).__name__}, which has no {name!r}"
                )
        self._actor = actor
        self._tells = tells
        self._left: list[Play] = []
        self._check_process()

    def _check_process(self) -> None:
        owner = getattr(self.curriculum, "process_id", None)
        if owner is not None and owner != os.getpid():
            raise SpadeError(
                f"this curriculum lives in process {owner}, and this environment in process {os.getpid()}: what a copy "
                "of it learned would be lost. Open a CurriculumServer(curriculum) there, and give its address here"
            )

    @property
    def return_range(self) -> tuple[float, float]:
        """Declared range of returns."""
        low, high = self.curriculum.return_range
        return low, high

    def next(self, rng: np.random.Generator) -> Play:
        """Return the next play; asks for a ticket when the last one has no seeds left."""
        if not self._left:
            self._check_process()
            ticket = self.curriculum.ask(self._actor)
            self._left = [Play(ticket, seed) for seed in reversed(ticket.seeds)]
        return self._left.pop()

    def tell(self, outcome: Outcome) -> Receipt | None:
        """Tell an outcome, if outcomes are told."""
        if not self._tells:
            return None
        receipt: Receipt = self.curriculum.tell(outcome)
        return receipt

    def close(self) -> None:
        """Give up the plays that are left, and flush; an own client is disconnected too.

        Raises:
            ServiceError: The server is gone, and outcomes could not be told.
        """
        left, self._left = self._left, []
        if self.owned:
            self.curriculum.close()  # the server gives up what is left
            return
        for play in reversed(left):
            self.tell(Outcome(play.ticket.id, play.seed, status="aborted"))
        flush = getattr(self.curriculum, "flush", None)
        if flush is not None:
            flush()


class ListedPlays:
    """Plays of given tasks in turn, for evaluation: nothing is told, and a seed fixes everything that is drawn.

    Args:
        tasks: At least one.
        return_range: Of their returns.
    """

    owned = False

    def __init__(self, tasks: Sequence[Task], *, return_range: tuple[float, float] = (-1.0, 1.0)) -> None:
        if not tasks or not all(isinstance(task, Task) for task in tasks):
            raise TypeError("tasks for evaluation must be a sequence of at least one Task")
        self._tasks = list(tasks)
        self._place: int | None = None
        self._count = 0
        self.return_range = return_range

    def restart(self) -> None:
        """Begin somewhere else, as the generator of the next play says."""
        self._place = None

    def next(self, rng: np.random.Generator) -> Play:
        """Return the next task with a seed of ``rng``, from a place of ``rng`` on."""
        if self._place is None:
            self._place = int(rng.integers(len(self._tasks)))
        task = self._tasks[self._place % len(self._tasks)]
        self._place += 1
        self._count += 1
        seed = int(rng.integers(_SEEDS))
        return Play(Ticket(self._count - 1, task, (seed,), train=False), seed)

    def tell(self, outcome: Outcome) -> Receipt | None:
        """Forget it."""
        return None

    def close(self) -> None:
        """There is nothing to close."""


class Judge:
    """Turns the end of an episode into an outcome.

    Args:
        return_range: Declared range of returns.
        success: A function of the last info and the total, or the least total that wins; absent: the info's
            ``is_success``, else a total at the top of the range (within a thousandth of it).
    """

    def __init__(self, return_range: tuple[float, float], success: Success | None = None) -> None:
        self.low, self.high = return_range
        self._success = success

    def outcome(
        self, play: Play, total: float, length: int, info: Mapping[str, Any], *, policy_version: int = 0
    ) -> Outcome:
        """Return the outcome of an episode that has ended by itself.

        A fault, or a total that is no number, is the environment's and never a loss. The total of a program is
        clipped to the range (method, section 6).

        Raises:
            ValueError: The total of another environment is outside the range.
        """
        number, seed = play.ticket.id, play.seed
        status = status_of(info.get("fault", ""))
        if status == "ok" and not math.isfinite(total):
            logger.warning("task %s: the rewards add up to %r, so the play is faulty", play.ticket.task.id, total)
            status = "env_error"
        if status != "ok":
            return Outcome(number, seed, length=length, status=status, policy_version=policy_version)
        if play.ticket.task.kind == "program":
            total = min(self.high, max(self.low, total))
        elif not self.low - 1e-6 <= total <= self.high + 1e-6:
            raise ValueError(
                f"the rewards of an episode of task {play.ticket.task.id} add up to {total:g}, outside the "
                f"curriculum's return_range [{self.low:g}, {self.high:g}]: make the curriculum with the family's range"
            )
        return Outcome(number, seed, total, self._won(info, total), length, policy_version=policy_version)

    def _won(self, info: Mapping[str, Any], total: float) -> bool:
        if "is_success" in info:
            return bool(info["is_success"])
        if self._success is None:
            return total >= self.high - _TOP_SHARE * (self.high - self.low)
        return bool(self._success(info, total)) if callable(self._success) else total >= self._success


def checked_success(success: Any) -> Success | None:
    """Return what says whether an episode was won.

    Raises:
        ValueError: It is neither a function, nor a finite number, nor absent.
    """
    number = isinstance(success, int | float) and not isinstance(success, bool) and math.isfinite(success)
    if success is not None and not callable(success) and not number:
        raise ValueError(f"success must be a function of (info, total), or the least total that wins, got {success!r}")
    return cast(Success | None, success)


def status_of(fault: str | ProgramFault) -> Status:
    """Return the status of an outcome for a fault, or for the text of one; ``ok`` for none."""
    reason = fault.reason if isinstance(fault, ProgramFault) else str(fault).partition(":")[0]
    if not reason:
        return "ok"
    return "timeout" if reason == "timeout" else "env_error"
