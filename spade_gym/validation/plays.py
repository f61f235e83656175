"""Playing a program many times at once, and what each play gave."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from spade_gym.errors import ProgramFault
from spade_gym.programs.program import RewardRule
from spade_gym.sandbox.session import Session
from spade_gym.types import WIN_THRESHOLD, Transition
from spade_gym.validation.starts import Starts

#: Plays that go on side by side in one worker.
BATCH = 64
#: Faults for which the worker is killed; each costs up to a whole deadline.
_KILLED = ("timeout", "memory", "crash")
#: So many kills are evidence enough; further probing would only cost time.
_MAX_KILLS = 3


class Unresponsive(Exception):
    """The program hangs or dies so often, or is so slow, that it cannot be probed further.

    Attributes:
        play: The play in which that became clear.
    """

    def __init__(self, message: str, play: Play) -> None:
        super().__init__(message)
        self.play = play


@dataclass(slots=True)
class Play:
    """One episode, from its reset to its end or to where the check stopped.

    Attributes:
        seed: Seed of the reset.
        origin: What kind of play it was: ``probe``, ``solution``, ``random``, ``trivial``, ``search``, ….
        rule: How a return is made from rewards.
        actions: Actions sent so far.
        transitions: The reset's and each step's result; one longer than ``actions`` unless a fault ended it.
        fault: The fault that ended the play, if one did.
        spared: The play stopped before an action for which the program had to be killed in another play.
    """

    seed: int
    origin: str
    rule: RewardRule = "sum"
    actions: list[str] = field(default_factory=list)
    transitions: list[Transition] = field(default_factory=list)
    fault: ProgramFault | None = None
    spared: bool = False

    @property
    def observation(self) -> str:
        """The latest observation."""
        return self.transitions[-1].observation

    @property
    def rewards(self) -> list[float]:
        """One reward for each step that was answered."""
        return [transition.reward for transition in self.transitions[1:]]

    @property
    def ended(self) -> bool:
        """The program said that the episode is over."""
        return bool(self.transitions) and (self.transitions[-1].terminated or self.transitions[-1].truncated)

    @property
    def total(self) -> float:
        """The return, not clipped: the sum of the rewards, or the last one under the rule ``last``."""
        if self.rule == "last":
            return self.rewards[-1] if self.ended and self.transitions[-1].terminated else 0.0
        return sum(self.rewards)

    @property
    def killed(self) -> bool:
        """The program had to be killed, or died."""
        return self.fault is not None and self.fault.reason in _KILLED

    @property
    def won(self) -> bool:
        """It terminated with at least the return of a win."""
        return bool(self.transitions) and self.transitions[-1].terminated and self.total >= WIN_THRESHOLD

    def evidence(self) -> dict[str, Any]:
        """Seed, actions and rewards, and the fault if there was one."""
        found: dict[str, Any] = {"seed": self.seed, "actions": list(self.actions), "rewards": self.rewards}
        if self.fault is not None:
            found["fault"] = str(self.fault)
        return found


#: Chooses the next action from the play so far; ``None`` stops the play.
Policy = Callable[[Play], str | None]


def script(actions: Sequence[str]) -> Policy:
    """Play a fixed list of actions, then stop."""
    return lambda play: actions[len(play.actions)] if len(play.actions) < len(actions) else None


def repeat(action: str) -> Policy:
    """Play one action for ever."""
    return lambda play: action


@dataclass(slots=True)
class Kills:
    """How often a program had to be killed, and for what.

    Attributes:
        count: Of kills, in all worlds together.
        actions: Actions that led to one; they are not played again.
    """

    count: int = 0
    actions: set[str] = field(default_factory=set)


class Player:
    """Plays one session; keeps every play in ``log`` for the checks that judge all of them.

    Args:
        session: The program in its worker.
        rule: The program's reward rule.
        log: Where plays are kept.
        kills: Shared by all players of one program.
        deadline: When to give up, on the clock ``time.monotonic``.
    """

    def __init__(self, session: Session, *, rule: RewardRule, log: list[Play], kills: Kills, deadline: float) -> None:
        self.session = session
        self._rule = rule
        self._log = log
        self._kills = kills
        self._deadline = deadline
        self._starts = Starts(session)

    @contextlib.contextmanager
    def instance(self, seed: int) -> Iterator[int]:
        """Lend the slot of an instance as after a reset, for questions about it.

        Raises:
            ProgramFault: The reset failed.
        """
        slots, answers = self._starts.start([seed], reuse=True)
        try:
            if isinstance(answers[0], ProgramFault):
                raise answers[0]
            yield slots[0]
        finally:
            self._starts.release(slots)

    def play(self, seed: int, policy: Policy, *, steps: int, origin: str) -> Play:
        """Play one episode of at most ``steps`` steps."""
        return self.play_many([(seed, policy)], steps=steps, origin=origin)[0]

    def play_many(
        self, items: Sequence[tuple[int, Policy]], *, steps: int, origin: str, batch: int = BATCH, reuse: bool = False
    ) -> list[Play]:
        """Play one episode for each seed and policy, ``batch`` of them side by side.

        Args:
            items: Seed and policy of each episode.
            steps: Longest episode.
            origin: What kind of plays these are.
            batch: How many go on at once.
            reuse: Begin from save points of earlier resets with the same seed where there are any, which is
                several times faster than a reset.

        Raises:
            Unresponsive: The program had to be killed too often.
        """
        plays: list[Play] = []
        for start in range(0, len(items), batch):
            plays += self._play_side_by_side(items[start : start + batch], steps, origin, reuse)
        return plays

    def _play_side_by_side(
        self, items: Sequence[tuple[int, Policy]], steps: int, origin: str, reuse: bool
    ) -> list[Play]:
        plays = [Play(seed, origin, self._rule) for seed, _ in items]
        self._log += plays
        slots, answers = self._starts.start([seed for seed, _ in items], reuse)
        live = self._record(plays, list(range(len(items))), answers)
        for _ in range(steps):
            chosen = [(i, items[i][1](plays[i])) for i in live]
            live = self._step(plays, slots, [(i, action) for i, action in chosen if action is not None])
            if not live:
                break
        self._starts.release(slots)
        return plays

    def _step(self, plays: list[Play], slots: Sequence[int], moves: Sequence[tuple[int, str]]) -> list[int]:
        """Play one action of each of the plays; return which of these go on.

        All at once, until the program had to be killed: then one by one, since each kill costs a whole deadline.
        """
        size = 1 if self._kills.count else max(1, len(moves))
        live: list[int] = []
        for start in range(0, len(moves), size):
            part = [(i, action) for i, action in moves[start : start + size] if action not in self._kills.actions]
            for i, action in moves[start : start + size]:
                plays[i].spared = action in self._kills.actions
            for i, action in part:
                plays[i].actions.append(action)
            if part and time.monotonic() > self._deadline:
                raise Unresponsive("the program is too slow to be checked", plays[part[0][0]])
            answers = self.session.step_many([(slots[i], action) for i, action in part]) if part else []
            live += self._record(plays, [i for i, _ in part], answers)
        return live

    def _record(self, plays: list[Play], which: list[int], answers: Sequence[Transition | ProgramFault]) -> list[int]:
        """Add the answers to their plays; return which of these go on."""
        for i, answer in zip(which, answers, strict=True):
            if isinstance(answer, ProgramFault):
                plays[i].fault = answer
                if plays[i].killed:
                    self._kills.count += 1
                    self._kills.actions.update(plays[i].actions[-1:])
                if self._kills.count >= _MAX_KILLS:
                    raise Unresponsive(f"the program had to be killed {self._kills.count} times", plays[i])
            else:
                plays[i].transitions.append(answer)
        return [i for i in which if plays[i].fault is None and not plays[i].ended]
