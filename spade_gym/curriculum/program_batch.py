"""Many programs of a curriculum at once, with one message a worker and step."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from spade_gym.curriculum.play import CurriculumPlays, Judge, ListedPlays, Play, status_of
from spade_gym.curriculum.task import Outcome
from spade_gym.curriculum.task_environments import HINT_CHARS, find_program
from spade_gym.envs.lanes import Lane
from spade_gym.envs.program_vector_env import ProgramVectorEnv
from spade_gym.envs.spaces import Unicode
from spade_gym.pool import Pool
from spade_gym.programs.program import Manifest, Program
from spade_gym.sandbox.base import Isolation, Limits
from spade_gym.sandbox.session import Batch

_ATTEMPTS = 20
_NOBODY = Program("", Manifest(name="Unassigned", setting="multi_turn", class_name="Unassigned"))
_Flags = npt.NDArray[np.bool_]


class ProgramBatch(ProgramVectorEnv):
    """A vector environment of programs in which every episode is a play of the curriculum's next ticket.

    Each program has one worker, shared by all places that play it; workers of programs that nobody plays are kept for
    a while. See ``CurriculumEnv`` for tickets and infos, and ``ProgramVectorEnv`` for the rest.

    Args:
        num_envs: Number of places.
        plays: Gives plays and takes outcomes; it is closed with this.
        pool: A pool folder in which programs are looked up first.
        num_kept: Workers kept for programs that nobody plays.
        autoreset_mode, max_turns, isolation, limits, render_mode: As for ``ProgramVectorEnv``.
    """

    def __init__(
        self,
        num_envs: int,
        plays: CurriculumPlays | ListedPlays,
        *,
        pool: Path | str | None = None,
        num_kept: int = 8,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        max_turns: int | None = None,
        isolation: Isolation | int | str | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(
            num_envs, program=_NOBODY, num_workers=1, autoreset_mode=autoreset_mode, max_turns=max_turns,
            isolation=isolation, limits=limits, render_mode=render_mode,
        )  # fmt: skip
        self.single_observation_space = Unicode(self.limits.text_chars + HINT_CHARS)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.policy_version = 0
        self._source = plays
        self._pool = None if pool is None else Pool(pool)
        self._num_kept = num_kept
        self._judge: Judge | None = None
        self._rng = np.random.default_rng()
        self._at: list[Play | None] = [None] * num_envs
        self._labels: dict[int, dict[str, Any]] = {}
        self._workers: OrderedDict[tuple[str, str], Lane] = OrderedDict()
        self._hints = np.zeros(num_envs, dtype=np.bool_)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Start plays (see ``ProgramVectorEnv.reset``); a seed seeds this actor's generator, not the instances."""
        if not self._begun and options and "reset_mask" in options:
            raise ValueError("the first reset starts all environments: call it without reset_mask")
        seeds = self._seed_list(seed)
        if seeds[0] is not None:
            self._rng = np.random.default_rng(seeds[0])
        return super().reset(seed=None, options=options)

    # ---- plays at places

    def _open(self) -> list[Lane]:
        return self._lanes

    def _reset(self, indices: Sequence[int], seeds: Sequence[int | None]) -> Batch:
        """Give each place its next play, and start it; a program that fails in its reset is skipped."""
        for index in indices:
            if self._at[index] is not None and self._turns[index]:
                self._give_up(index)
        waiting = list(range(len(indices)))
        merged = Batch([""] * len(indices), [0.0] * len(indices), [0] * len(indices), {}, {})
        for attempt in range(_ATTEMPTS):
            batch = self._start([indices[position] for position in waiting])
            merged.faults.clear()
            for place, position in enumerate(waiting):
                merged.observations[position] = batch.observations[place]
                if place in batch.infos:
                    merged.infos[position] = batch.infos[place]
                if place in batch.faults:
                    merged.faults[position] = batch.faults[place]
            for position, fault in merged.faults.items():
                self._tell(indices[position], status=status_of(fault))
            waiting = sorted(merged.faults)
            if not waiting or attempt == _ATTEMPTS - 1:
                break
        return merged

    def _start(self, indices: list[int]) -> Batch:
        for index in indices:
            play = self._at[index]
            if play is None:
                play = self._at[index] = self._source.next(self._rng)
                self._move(index, play)
        self._lanes = [lane for lane in self._workers.values() if lane.indices]
        self._any_last_only = bool(self._last_only.any())
        self._trim()
        return super()._reset(indices, [self._play_at(index).seed for index in indices])

    def _play_at(self, index: int) -> Play:
        play = self._at[index]
        assert play is not None
        return play

    def _move(self, index: int, play: Play) -> None:
        """Put a place to the worker of a play's program."""
        task = play.ticket.task
        key = (task.id, task.hint)
        lane = self._workers.get(key)
        if lane is None:
            program = find_program(task, self._pool)
            lane = self._workers[key] = Lane(self._session(program), {})
        self._workers.move_to_end(key)
        program = lane.session.program
        self.programs = (*self.programs[:index], program, *self.programs[index + 1 :])
        self._last_only[index] = program.manifest.reward == "last"
        self._hints[index] = play.ticket.arm == "hint"
        if index in lane.slot_of:
            return
        for other in self._workers.values():
            slot = other.slot_of.pop(index, None)
            if slot is not None:
                other.session.close_slot(slot)
                other.settle()
        lane.slot_of[index] = lane.session.open()
        lane.settle()

    def _trim(self) -> None:
        idle = [key for key, lane in self._workers.items() if not lane.indices]
        for key in idle[: max(0, len(idle) - self._num_kept)]:
            self._workers.pop(key).session.close()

    def _first(self, index: int, observation: str, hint: bool) -> str:
        return super()._first(index, observation, hint or bool(self._hints[index]))

    def _reset_info(self, index: int, given: dict[str, Any] | None) -> dict[str, Any]:
        return {**super()._reset_info(index, given), **self._play_at(index).labels}

    # ---- outcomes

    def _settle(
        self,
        rewards: npt.NDArray[np.float64],
        flags: npt.NDArray[np.int64] | None,
        skipped: list[int],
        faults: dict[int, str],
    ) -> tuple[_Flags, _Flags, dict[str, Any]]:
        terminated, truncated, infos = super()._settle(rewards, flags, skipped, faults)
        self._labels = {
            index: play.labels for index, play in enumerate(self._at) if play is not None and index not in skipped
        }
        for index, labels in self._labels.items():
            infos = self._add_info(infos, labels, index)
        for place in np.flatnonzero(self._ended):
            index = int(place)
            if index in self._labels:
                self._end(index, bool(infos["is_success"][index]), faults.get(index, ""))
        return terminated, truncated, infos

    def _with_finals(
        self, infos: dict[str, Any], ended: list[int], given: Mapping[int, dict[str, Any]]
    ) -> dict[str, Any]:
        labelled = {index: {**given.get(index, {}), **self._labels.get(index, {})} for index in ended}
        return super()._with_finals(infos, ended, labelled)

    def _end(self, index: int, won: bool, fault: str) -> None:
        if self._judge is None:
            self._judge = Judge(self._source.return_range)
        play = self._play_at(index)
        info = {"is_success": won, "fault": fault}
        outcome = self._judge.outcome(
            play, float(self._totals[index]), int(self._turns[index]), info, policy_version=self.policy_version
        )
        self._at[index] = None
        self._source.tell(outcome)

    def _give_up(self, index: int) -> None:
        self._tell(index, status="aborted")

    def _tell(self, index: int, *, status: Any) -> None:
        play = self._play_at(index)
        self._at[index] = None
        self._source.tell(Outcome(play.ticket.id, play.seed, length=int(self._turns[index]), status=status))

    def set_policy_version(self, version: int) -> None:
        """Set what outcomes from now on name as the player's version."""
        self.policy_version = version

    def close_extras(self, **kwargs: Any) -> None:
        """Give up what is being played, flush, and end the workers.

        Raises:
            ServiceError: The curriculum's server is gone, and outcomes could not be told.
        """
        try:
            for index in [index for index, play in enumerate(self._at) if play is not None]:
                if self._source.owned:
                    self._at[index] = None
                else:
                    self._give_up(index)
            self._source.close()
        finally:
            for lane in self._workers.values():
                lane.session.close()
            self._workers.clear()
            self._lanes = []
