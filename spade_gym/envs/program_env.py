"""A program as a Gymnasium environment: text in, text out, one instance at a time."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium.error import ResetNeeded

from spade_gym.envs import episode
from spade_gym.envs.render import frame
from spade_gym.envs.spaces import Unicode
from spade_gym.errors import ProgramFault
from spade_gym.locate import locate
from spade_gym.programs.program import Program
from spade_gym.sandbox.base import Isolation, Limits
from spade_gym.sandbox.session import LoadReport, Session, Snapshot
from spade_gym.types import Transition


@dataclass(frozen=True, slots=True)
class SavePoint:
    """A save point of an environment; it can be pickled and restored in another process (by replay).

    Attributes:
        digest: Of the program it belongs to.
        session: The instance's past.
        turns: Steps so far.
        total: Sum of rewards so far.
        ended: Whether the episode is over.
        observation: The last observation.
        first_observation: The first one, from which commands may be read.
    """

    digest: str
    session: Snapshot
    turns: int
    total: float
    ended: bool
    observation: str
    first_observation: str | None


class ProgramEnv(gymnasium.Env[str, str]):
    r"""Plays a program in an isolated worker.

    Observations and actions are texts. Actions are handed to the program unchanged: games expect
    ``\boxed{…}``, which the wrapper ``BoxedAction`` adds. Info holds, one type per key: ``is_success`` (bool, only
    ever true at the end), ``fault`` (text, "" unless the program failed), at a reset also ``digest``,
    ``instance_seed`` and for tool-use programs ``tools`` (JSON of OpenAI schemas); ``commands`` (list of texts) and
    ``program_info`` where the program gives them.

    A program that raises, hangs or dies in a step ends the episode: ``truncated``, reward 0, ``info["fault"]``.
    In a reset it raises :class:`~spade_gym.errors.ProgramFault`.

    Args:
        program: A ``Program``, or a key for :func:`spade_gym.locate.locate` (bundled name, digest, path).
        max_turns: Turn limit given to the program, and enforced here; absent: the program's own.
        hint: Append the program's hint to every first observation (``reset(options={"hint": …})`` overrides it).
        isolation: ``L3``, ``L2``, ``L1``, ``L0``; absent: the stronger of L3 and L2 that works here, else an error.
        limits: ``Limits``, or a mapping of some of them.
        render_mode: ``ansi`` (``render`` returns text), ``human`` (every turn is printed) or absent.

    Raises:
        SpadeError: No such program.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012  (Gymnasium declares it as an instance variable)
        "render_modes": ["ansi", "human"],
        "render_fps": 4,
    }

    def __init__(
        self,
        program: Program | Path | str,
        *,
        max_turns: int | None = None,
        hint: bool = False,
        isolation: Isolation | int | str | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
        render_mode: str | None = None,
    ) -> None:
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise ValueError(f"render_mode must be 'ansi', 'human' or absent, got {render_mode!r}")
        max_turns = None if max_turns is None else episode.as_count("max_turns", max_turns)
        self.program = locate(program)
        self.limits = episode.as_limits(limits)
        self.render_mode = render_mode
        self.action_space = Unicode(self.limits.action_chars)
        self.observation_space = Unicode(self.limits.text_chars + len(self.program.manifest.hint) + 16)
        self._max_turns = max_turns
        self._turn_limit = min(max_turns or self.limits.turns, self.limits.turns)
        self._hint = episode.as_hint(hint)
        self._isolation = Isolation.parse(isolation)
        self._session: Session | None = None
        self._slot = 0
        self._clear()

    def _clear(self) -> None:
        self._ended = True
        self._turns = 0
        self._total = 0.0
        self._observation = ""
        self._first_observation: str | None = None
        self._last_action: str | None = None
        self._instance_seed: int | None = None
        self._actions: list[str] = []

    # ---- playing

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: Seed of the instance, and of the stream from which later resets without a seed draw theirs.
            options: ``hint`` (bool) appends the hint; ``action_history`` (texts) plays these actions at once and
                returns the observation after them.

        Raises:
            ProgramFault: The program failed.
        """
        chosen = episode.check_options(options, ("hint", "action_history"))
        seed = episode.as_seed(seed)
        super().reset(seed=seed)
        instance_seed = episode.next_instance(self.np_random) if seed is None else seed
        session = self._open()
        self._clear()
        first = session.reset(self._slot, instance_seed)
        observation = first.observation
        if chosen.get("hint", self._hint):
            observation = episode.with_hint(self.program, observation)
        self._instance_seed = instance_seed
        self._observation = self._first_observation = observation
        self._ended = False
        tools = json.dumps(session.tools(self._slot)) if self.program.setting == "tool_use" else ""
        info = episode.reset_info(self.program, instance_seed, tools)
        if first.info:
            episode.add_program_info(info, first.info)
        for number, action in enumerate(chosen.get("action_history", ())):
            if self._ended:
                raise ValueError(f"action_history goes on after the episode's end: it ended with action {number}")
            observation, _, _, _, later = self.step(action)
            info.update(later)
        self._show()
        return observation, info

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play one action.

        Raises:
            ResetNeeded: The episode is over, or none was begun.
            TypeError: The action is no text.
            ValueError: The action is longer than ``limits.action_chars``, or holds lone surrogates.
        """
        if self._ended:
            raise ResetNeeded("the episode is over (or none was begun): call reset() before step()")
        if action not in self.action_space:
            raise _bad_action(action, self.limits.action_chars)
        action = str(action)
        session = self._open()
        info: dict[str, Any] = {"is_success": False, "fault": ""}
        try:
            result = session.step(self._slot, action)
        except ProgramFault as fault:
            result = Transition(episode.FAULT_NOTICE, 0.0, False, True, {})
            info["fault"] = episode.describe_fault(fault)
        except BaseException:  # Ctrl-C in the middle: the action counts as not played, and a new worker is used
            session.close()
            raise
        self._turns += 1
        self._actions.append(action)
        self._last_action = action
        observation, reward, terminated, truncated, given = result
        reward = episode.last_reward_only(self.program, reward, terminated)
        self._total += reward
        if terminated:
            info["is_success"] = episode.is_win(terminated, self._total)
        elif self._turns >= self._turn_limit:
            truncated = True
        if given:
            episode.add_program_info(info, given)
        self._ended = terminated or truncated
        self._observation = observation
        self._show()
        return observation, reward, terminated, truncated, info

    def _open(self) -> Session:
        if self._session is None:
            self._session = Session(
                self.program, isolation=self._isolation, limits=self.limits, max_turns=self._max_turns
            )
            self._slot = self._session.open()
            if self._instance_seed is not None and not self._ended:
                self._session.restore(self._slot, Snapshot(self._instance_seed, tuple(self._actions)))
        return self._session

    def close(self) -> None:
        """End the worker; harmless when repeated."""
        if self._session is not None:
            self._session.close()
            self._session = None

    # ---- looking

    @property
    def report(self) -> LoadReport:
        """What the running program says about itself; starts it when needed."""
        return self._open().report

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands that the manifest declares, expanded; else those that the first observation announces."""
        return episode.commands_of(self.program, self._first_observation)

    @property
    def action_history(self) -> tuple[str, ...]:
        """The actions of this episode; ``reset(seed=…, options={"action_history": …})`` plays them again."""
        return tuple(self._actions)

    @property
    def instance_seed(self) -> int | None:
        """Seed of the present instance; ``None`` before the first reset."""
        return self._instance_seed

    def solution(self) -> str | None:
        """The program's own solution of the instance that was just reset, one action a line; ``None`` without one.

        It is computed by another instance of the same seed, so this one is left as it is.
        """
        if self._instance_seed is None:
            raise ResetNeeded("call reset() before solution()")
        session = self._open()
        slot = session.open()
        try:
            session.reset(slot, self._instance_seed)
            return session.solution(slot)
        finally:
            session.close_slot(slot)

    def render(self) -> str | None:
        """Return the present turn as text (``ansi``), or print it (``human``)."""
        if self.render_mode is None:
            gymnasium.logger.warn("render() needs a render mode: gymnasium.make(..., render_mode='ansi')")
            return None
        limit = self._shown_limit()
        text = frame(self.program.name, self._turns, limit, self._total, self._last_action, self._observation)
        if self.render_mode == "ansi":
            return text
        sys.stdout.write(text + "\n")
        return None

    def _shown_limit(self) -> int:
        own = self._open().report.max_turns
        return self._turn_limit if own is None else min(own, self._turn_limit)

    def _show(self) -> None:
        if self.render_mode == "human":
            self.render()

    # ---- saving

    def snapshot(self) -> SavePoint:
        """Save the episode as it is now.

        Raises:
            ResetNeeded: No episode was begun.
            ProgramFault: The program failed in this episode.
        """
        if self._instance_seed is None:
            raise ResetNeeded("call reset() before snapshot()")
        saved = self._open().snapshot(self._slot)
        return SavePoint(
            self.program.digest, saved, self._turns, self._total, self._ended, self._observation,
            self._first_observation,
        )  # fmt: skip

    def restore(self, point: SavePoint) -> None:
        """Go back to a save point, of this environment or of another one with the same program.

        Raises:
            ValueError: It belongs to another program.
            ProgramFault: The program failed while its past was replayed.
        """
        if not isinstance(point, SavePoint):
            raise TypeError(f"restore takes what snapshot() gave, got {point!r}")
        if point.digest != self.program.digest:
            raise ValueError(
                f"this save point belongs to the program {point.digest[:12]}, not to {self.program.digest[:12]}"
            )
        self._open().restore(self._slot, point.session)
        self._instance_seed = point.session.seed
        self._actions = list(point.session.actions)
        self._last_action = self._actions[-1] if self._actions else None
        self._turns, self._total, self._ended = point.turns, point.total, point.ended
        self._observation, self._first_observation = point.observation, point.first_observation

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_session": None, "_slot": 0}


def _bad_action(action: object, limit: int) -> Exception:
    if not isinstance(action, str):
        return TypeError(f"an action must be text (str), got {type(action).__name__}: {action!r}")
    if len(action) > limit:
        return ValueError(f"an action has at most {limit} characters (limits.action_chars), got {len(action)}")
    return ValueError("an action must not hold lone surrogates, which cannot be written as UTF-8")


def check_actions(actions: Iterable[object], limit: int) -> None:
    """Refuse a batch with an action that no environment would take.

    Raises:
        TypeError: An action is no text.
        ValueError: An action is too long, or holds lone surrogates.
    """
    space = Unicode(limit)
    for action in actions:
        if action not in space:
            raise _bad_action(action, limit)
