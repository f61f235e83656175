"""A session: one program in one worker, many instances of it, played, saved and asked.

The parts: ``link.py`` starts, asks and kills the worker; ``plays.py`` keeps the instances alive across its deaths;
``channel.py`` checks what comes over the wire; ``zygotes.py`` forks workers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from types import TracebackType
from typing import Annotated, Any

import msgspec

from spade_gym.errors import ProgramFault, SandboxError
from spade_gym.programs.program import Program
from spade_gym.sandbox.answers import Access, Batch, Criterion, LoadReport, Snapshot
from spade_gym.sandbox.base import Isolation, Limits, World
from spade_gym.sandbox.link import Link
from spade_gym.sandbox.plays import Plays
from spade_gym.sandbox.zygotes import DeathWatch
from spade_gym.types import Transition

__all__ = ["Access", "Batch", "Criterion", "LoadReport", "Session", "Snapshot"]

_Count = Annotated[int, msgspec.Meta(ge=0, le=10_000)]


class Session:
    """One program in one isolated worker. Starts lazily; not thread-safe.

    Args:
        program: What to run.
        isolation: L3, L2, L1 or L0; absent: the stronger of L3 and L2 that works here, else an error.
        limits: What the program may use.
        world: Chance and time; the default is that of all play.
        max_turns: Passed to the program's constructor when given.

    Raises:
        TypeError: An argument is of another type.
        ValueError: ``isolation`` names no level.
    """

    def __init__(
        self,
        program: Program,
        *,
        isolation: Isolation | int | str | None = None,
        limits: Limits | None = None,
        world: World | None = None,
        max_turns: int | None = None,
    ) -> None:
        _check_type("program", program, Program, "a Program (spade_gym.programs.reply.program_from_source makes one)")
        _check_type("limits", limits, Limits | None, "Limits or absent")
        _check_type("world", world, World | None, "a World or absent")
        _check_type("max_turns", max_turns, int | None, "a whole number or absent")
        self.program = program
        self.limits = limits or Limits()
        self._world = world or World()
        arguments = dict(program.manifest.kwargs)
        if max_turns is not None:
            arguments["max_turns"] = max_turns
        self._link = Link(program, Isolation.parse(isolation), self.limits, self._world, arguments)
        self._plays = Plays(self._link, self.limits)

    # ---- starting and ending

    @property
    def level(self) -> Isolation:
        """The isolation in use."""
        return self._link.level

    @property
    def report(self) -> LoadReport:
        """What the program says about itself; loads it when needed.

        Raises:
            ProgramFault: It cannot be loaded.
        """
        self._plays.start()
        return self._link.report

    def prepare(self) -> None:
        """Have a locked-in worker ready, so that the first reset need not wait for one."""
        self._link.prepare()

    def summon(self) -> None:
        """Have a worker begin to load the program where there is none, while this process does something else.

        Raises:
            SandboxError: No worker can be started.
        """
        self._link.summon()

    def death_watch(self) -> DeathWatch:
        """Watch for the death of the present worker.

        Raises:
            SandboxError: There is no worker process (L0), or this system has no process handles.
        """
        self._plays.start()
        return self._link.death_watch()

    def close(self) -> None:
        """End the worker. The session can be used again: instances are replayed in a new one."""
        self._link.close()
        self._plays.forget_pending()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- instances

    def open(self) -> int:
        """Make room for an instance; return its slot, to be reset next."""
        return self._plays.open()

    def close_slot(self, slot: int) -> None:
        """Forget an instance."""
        self._plays.close_slot(slot)

    # ---- playing

    def reset(self, slot: int, seed: int) -> Transition:
        """Start an episode.

        Raises:
            ProgramFault: The program failed.
        """
        return _unwrap(self.reset_many([(slot, seed)])[0])

    def step(self, slot: int, action: str) -> Transition:
        """Play one action.

        Raises:
            ProgramFault: The program failed; the instance must be reset before it is used again.
        """
        return _unwrap(self._plays.step(slot, action))

    def reset_many(self, items: Sequence[tuple[int, int]]) -> list[Transition | ProgramFault]:
        """Start episodes of several instances, (slot, seed) each, in one message."""
        self.begin("reset", items)
        return self.finish().transitions()

    def step_many(self, items: Sequence[tuple[int, str]]) -> list[Transition | ProgramFault]:
        """Play one action in each of several instances, (slot, action) each, in one message."""
        self.begin("step", items)
        return self.finish().transitions()

    def nudge(self) -> None:
        """Wake the worker: ``begin`` is about to follow, and a process takes time to wake."""
        self._link.nudge()

    def begin(self, operation: str, items: Sequence[tuple[int, Any]]) -> None:
        """Send ``reset`` or ``step`` for several instances without waiting; ``finish`` collects the results."""
        self._plays.begin(operation, items)

    def finish(self) -> Batch:
        """Collect the results of ``begin``, one row an item, in its order."""
        return self._plays.finish()

    # ---- save points

    def snapshot(self, slot: int) -> Snapshot:
        """Save an instance.

        Raises:
            ProgramFault: The instance is faulty.
        """
        number: int | None = self._question(int | None, "snapshot", slot)
        state = self._plays.slots[slot]
        copy = (self._link.key, number) if number is not None else None
        return Snapshot(state.seed, tuple(state.actions), copy)

    def restore(self, slot: int, snapshot: Snapshot) -> None:
        """Bring an instance back to a save point: from the copy in the worker, else by replaying its past.

        Raises:
            ProgramFault: The program failed in the replay.
        """
        self._plays.check_slots([(slot, None)])
        self._plays.start()
        done = False
        if snapshot.copy is not None and snapshot.copy[0] == self._link.key:
            with contextlib.suppress(ProgramFault):
                done = self._link.ask(bool, "restore", slot, snapshot.copy[1])
            self._plays.start()
        if not done:
            self._plays.replay_anew(slot, snapshot.seed, snapshot.actions)
        self._plays.put(slot, snapshot.seed, snapshot.actions)

    def past(self, slot: int) -> Snapshot | None:
        """The seed and actions of an instance, enough to replay it anywhere; ``None`` when it must be reset first."""
        self._plays.check_slots([(slot, None)])
        state = self._plays.slots[slot]
        return None if state.fault is not None else Snapshot(state.seed, tuple(state.actions))

    # ---- questions

    def solution(self, slot: int) -> str | None:
        """The program's own solution of an instance just reset; ``None`` where it has none.

        Raises:
            ProgramFault: ``solution()`` raised or returned no text.
        """
        text: str | None = self._question(str | None, "solution", slot)
        return text

    def tools(self, slot: int) -> list[dict[str, Any]]:
        """Tool schemas of an instance in OpenAI form; empty for games."""
        found: list[Any] = self._question(list[Any], "tools", slot)
        return [tool for tool in found if isinstance(tool, dict)]

    def tool_methods(self, slot: int) -> dict[str, list[dict[str, Any]]]:
        """Parameters of every ``tool_…`` method: name, required, kind."""
        found: dict[str, list[dict[str, Any]]] = self._question(dict[str, list[dict[str, Any]]], "tool_methods", slot)
        return found

    def num_criteria(self, slot: int) -> int:
        """Number of instructions that have a criterion."""
        count: int = self._question(_Count, "num_criteria", slot)
        return count

    def criterion(self, slot: int, index: int) -> Criterion:
        """Evaluate a criterion on the instance's present state.

        Raises:
            ProgramFault: The criterion raised.
        """
        return Criterion(*self._question(tuple[bool, str], "criterion", slot, index))

    def fingerprint(self, slot: int) -> str | None:
        """A digest that equal states of an instance share; ``None`` where its state cannot be read completely.

        Raises:
            ProgramFault: The instance is faulty.
        """
        digest: str | None = self._question(str | None, "fingerprint", slot)
        return digest

    def accesses(self) -> list[Access]:
        """What the program's own code tried to reach so far; needs ``World(audit=True)``."""
        if not self._world.audit:
            raise SandboxError("accesses are recorded only under World(audit=True)")
        return self._link.accesses()

    def _question(self, kind: Any, operation: str, slot: int, *arguments: Any) -> Any:
        """Ask about an instance; once more in a fresh worker when the present one dies, perhaps worn out."""
        self._plays.make_ready(slot)
        try:
            return self._link.ask(kind, operation, slot, *arguments)
        except ProgramFault as fault:
            if fault.reason not in ("crash", "memory"):
                raise
            self._link.kill()
        self._plays.make_ready(slot)
        return self._link.ask(kind, operation, slot, *arguments)


def _check_type(name: str, value: object, kind: Any, wanted: str) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"Session: {name} must be {wanted}, got {type(value).__name__}: {value!r:.100}")


def _unwrap(result: Transition | ProgramFault) -> Transition:
    if isinstance(result, ProgramFault):
        raise result
    return result
