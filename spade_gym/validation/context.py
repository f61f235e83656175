"""What the checks share: the program in its workers, what it announces, its solutions, and all plays so far."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Sequence
from functools import cached_property
from types import TracebackType
from typing import Any, Literal, Self

from spade_gym.errors import ProgramFault
from spade_gym.programs.commands import expand
from spade_gym.programs.program import Program
from spade_gym.programs.solution_text import action_lines
from spade_gym.sandbox.base import Isolation, Limits, World
from spade_gym.sandbox.session import LoadReport, Session
from spade_gym.types import Transition
from spade_gym.validation import actions
from spade_gym.validation.plays import Kills, Play, Player, script

ResetGate = Literal["any", "all"]

#: Seeds on which solutions, criteria and determinism are judged (method, section 4).
SEEDS = (0, 1, 2, 3, 4)
#: Turn limit of a program that states none.
DEFAULT_TURNS = 200
#: At most so many announced commands are tried.
MAX_COMMANDS = 24
#: Sound programs take a second or two; one that takes this long is no use in training either.
BUDGET_SECONDS = 120.0
_MAX_STEPS = 1_000
_ABS_REWARD = 1e12
_IDENTIFIER = re.compile(r"[A-Za-z]*[-_]?\d[\w-]*|'[^']{1,30}'")
_MAX_KNOWN = 4


class Context:
    """One program under examination; close it when done.

    Args:
        program: The program.
        isolation: Demanded isolation; ``None`` for the secure default.
        limits: Limits of its workers. The bound on rewards is lifted, so that the reward check sees them.
        reset_gate: ``any``: a criterion that raises on any seed rejects; ``all``: the paper's rule.
        budget_seconds: Wall-clock time after which a program counts as too slow to be checked.

    Attributes:
        plays: Every play of every check so far.
        is_playable: Set to false by the check that finds that the program cannot be loaded or reset.
    """

    def __init__(
        self,
        program: Program,
        *,
        isolation: Isolation | str | None = None,
        limits: Limits | None = None,
        reset_gate: ResetGate = "any",
        budget_seconds: float = BUDGET_SECONDS,
    ) -> None:
        self.program = program
        self.reset_gate = reset_gate
        self.limits = dataclasses.replace(limits or Limits(), abs_reward=_ABS_REWARD)
        self.plays: list[Play] = []
        self.is_playable = True
        self._isolation = isolation
        self._deadline = time.monotonic() + budget_seconds
        self._sessions: dict[World, Session] = {}
        self._players: dict[World, Player] = {}
        self._kills = Kills()
        self._solutions: dict[int, str | ProgramFault | None] = {}
        self._firsts: dict[int, Transition] = {}

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close every worker."""
        for session in self._sessions.values():
            session.close()

    # ---- the program in its workers

    def session(self, world: World | None = None) -> Session:
        """The program's session in a world, started on first use."""
        world = world or World()
        if world not in self._sessions:
            self._sessions[world] = Session(self.program, isolation=self._isolation, limits=self.limits, world=world)
        return self._sessions[world]

    def player(self, world: World | None = None) -> Player:
        """The player of the session in a world."""
        world = world or World()
        if world not in self._players:
            self._players[world] = Player(
                self.session(world),
                rule=self.program.manifest.reward,
                log=self.plays,
                kills=self._kills,
                deadline=self._deadline,
            )
        return self._players[world]

    @cached_property
    def report(self) -> LoadReport:
        """What loading the program showed.

        Raises:
            ProgramFault: It cannot be loaded.
        """
        return self.session().report

    @property
    def is_tool_use(self) -> bool:
        """Actions are tool calls, not boxed commands."""
        return self.report.is_tool_use

    @property
    def turn_limit(self) -> int:
        """The program's own turn limit, or 200 where it states none."""
        return self.report.max_turns or DEFAULT_TURNS

    @property
    def steps(self) -> int:
        """How long plays go on that should reach the end: slightly past the turn limit."""
        return min(self.turn_limit + 2, _MAX_STEPS)

    @property
    def longest(self) -> int:
        """How long any play may go on at all: past the turn limit, and past 200 steps."""
        return max(self.steps, DEFAULT_TURNS + 2)

    # ---- its instances

    def firsts(self, seeds: Sequence[int]) -> list[str]:
        """First observation of each seed.

        Raises:
            ProgramFault: A reset failed.
        """
        missing = [seed for seed in seeds if seed not in self._firsts]
        items = [(seed, script([])) for seed in missing]
        for play in self.player().play_many(items, steps=0, origin="reset", reuse=True):
            if play.fault is not None:
                raise play.fault
            self._firsts[play.seed] = play.transitions[0]
        return [self._firsts[seed].observation for seed in seeds]

    def solution_text(self, seed: int, world: World | None = None) -> str | None:
        """What ``solution()`` says after a reset with the seed; ``None`` where there is none.

        Raises:
            ProgramFault: It raised, or returned no text.
        """
        if world is not None:
            return self._ask_solution(seed, world)
        if seed not in self._solutions:
            try:
                self._solutions[seed] = self._ask_solution(seed, World())
            except ProgramFault as fault:
                self._solutions[seed] = fault
        answer = self._solutions[seed]
        if isinstance(answer, ProgramFault):
            raise answer
        return answer

    def _ask_solution(self, seed: int, world: World) -> str | None:
        with self.player(world).instance(seed) as slot:
            return self.session(world).solution(slot)

    def solution_actions(self, seed: int) -> list[str]:
        """The solution as actions, boxed for games; empty where there is none or it failed."""
        try:
            text = self.solution_text(seed) if self.report.has_solution else None
        except ProgramFault:
            return []
        return self.as_actions(text or "")

    def winning_actions(self, seed: int) -> list[str]:
        """The solution as far as the episode went when it was played and won; all of it where that is not known."""
        plays = (play for play in self.plays if play.seed == seed and play.origin == "solution" and play.won)
        won = next(plays, None)
        return self.solution_actions(seed) if won is None else list(won.actions)

    def as_actions(self, text: str) -> list[str]:
        """Lines of a solution as actions; blank lines are no actions."""
        lines = action_lines(text)
        return lines if self.is_tool_use else [actions.boxed(line) for line in lines]

    # ---- what can be done in it

    @cached_property
    def announcement(self) -> actions.Announcement:
        """What the first observations and the replies to nonsense announce."""
        texts = self.firsts(SEEDS)
        nonsense = self.player().play_many(
            [(seed, script(actions.GARBAGE[:1])) for seed in SEEDS[:2]], steps=1, origin="probe"
        )
        return actions.announced([*texts, *(play.observation for play in nonsense if play.transitions)])

    @cached_property
    def commands(self) -> tuple[str, ...]:
        """Legal actions as far as known: declared in the manifest, else announced; tool calls without arguments."""
        if self.is_tool_use:
            calls = [actions.tool_call(actions.function_of(tool).get("name", ""), {}) for tool in self.tools]
            return ("<answer>done</answer>", *calls[: MAX_COMMANDS - 1])
        found: Sequence[str] = self.announcement.commands
        if self.program.manifest.commands:
            found = _expanded(self.program.manifest.commands)
        return tuple(actions.boxed(command) for command in found[:MAX_COMMANDS])

    @cached_property
    def tools(self) -> list[dict[str, Any]]:
        """Tool schemas of the instance with seed 0; empty for games."""
        if not self.is_tool_use:
            return []
        slot = self.session().open()
        try:
            self.session().reset(slot, SEEDS[0])
            return self.session().tools(slot)
        finally:
            self.session().close_slot(slot)

    @cached_property
    def probes(self) -> list[str]:
        """Odd actions: nonsense, odd characters, and variants of commands, solution lines and tool calls."""
        found = [*actions.GARBAGE, *actions.ODD_TEXTS]
        if self.is_tool_use:
            known = list(dict.fromkeys(_IDENTIFIER.findall(" ".join(self.firsts(SEEDS[:1])))))[:_MAX_KNOWN]
            found += [*self.commands, *actions.tool_probes(self.tools, [text.strip("'") for text in known])]
            return list(dict.fromkeys(found))
        lines = [actions.unboxed(action) for action in _kinds(self.solution_actions(SEEDS[0]))]
        known_moves = [*map(actions.unboxed, self.commands), *self.announcement.examples, *lines]
        for move in dict.fromkeys(known_moves):
            variants = [move, *actions.number_variants(move), *actions.shape_variants(move)]
            found += [actions.boxed(variant) for variant in variants]
        for template in self.announcement.templates:
            found += [actions.boxed(text) for text in actions.fill_template(template)]
        found += [*GARBAGE_NUMBERS, *lines[:1]]
        return list(dict.fromkeys(found))


GARBAGE_NUMBERS = tuple(actions.boxed(number) for number in actions.NUMBERS)


def _expanded(templates: Sequence[str]) -> list[str]:
    """Commands of a manifest, evenly thinned out where they are too many to try."""
    limit = 100_000
    try:
        every = expand(templates, limit)
    except ValueError:
        every = ()
    stride = max(1, -(-len(every) // MAX_COMMANDS))
    return list(every[::stride])


def _kinds(lines: Sequence[str]) -> list[str]:
    """One line of each shape (numbers aside), so that fifty moves of one kind count once."""
    shapes: dict[str, str] = {}
    for line in lines:
        shapes.setdefault(re.sub(r"\d+", "0", line), line)
    return list(shapes.values())[:12]
