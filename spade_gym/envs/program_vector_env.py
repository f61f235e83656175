"""Many instances of one or several programs as one vector environment, with one message a worker and step."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from spade_gym.envs import episode
from spade_gym.envs.lanes import Lane, Pace
from spade_gym.envs.program_env import check_actions
from spade_gym.envs.render import frame
from spade_gym.envs.spaces import Unicode
from spade_gym.errors import ProgramFault
from spade_gym.locate import locate
from spade_gym.programs.program import Program
from spade_gym.sandbox.base import Isolation, Limits
from spade_gym.sandbox.session import Batch, Session, Snapshot
from spade_gym.sandbox.wire import TERMINATED, TRUNCATED
from spade_gym.types import WIN_THRESHOLD

Key = Program | Path | str
_Flags = npt.NDArray[np.bool_]
_monotonic = time.monotonic


class ProgramVectorEnv(VectorEnv[tuple[str, ...], Sequence[str], npt.NDArray[Any]]):
    """Plays many instances at once; every trajectory is exactly that of a ``ProgramEnv`` with the same seeds.

    Programs may be mixed: ``gymnasium.make_vec("spade/Program-v0", num_envs=4, program=[a, b])`` plays a, b, a, b.
    Observations are a tuple of texts; actions any sequence of texts. A program that fails in a step truncates its
    own episode (``infos["fault"]``); one that fails in an automatic reset shows a notice and is truncated at the
    next step, so that a long run goes on.

    Args:
        num_envs: Number of instances.
        program: A program or key (see :func:`spade_gym.locate.locate`), or a sequence of them, used in turn.
        autoreset_mode: ``NextStep`` (default), ``SameStep`` or ``Disabled``, or Gymnasium's ``AutoresetMode``.
        num_workers: Workers per program. ``None``: one, and more, up to the number of processor cores, once its steps
            turn out slow (a batch takes over 2 ms); instances move with their past and go on as before.
        max_turns, hint, isolation, limits, render_mode: As for ``ProgramEnv`` (``render_mode``: ``ansi`` or absent).

    Raises:
        SpadeError: No such program.
        ValueError: An argument is out of range.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012  (Gymnasium declares it as an instance variable)
        "render_modes": ["ansi"],
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        num_envs: int = 1,
        *,
        program: Key | Sequence[Key],
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        num_workers: int | None = None,
        max_turns: int | None = None,
        hint: bool = False,
        isolation: Isolation | int | str | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
        render_mode: str | None = None,
    ) -> None:
        if render_mode not in (None, "ansi"):
            raise ValueError(f"render_mode of a vector environment must be 'ansi' or absent, got {render_mode!r}")
        num_envs = episode.as_count("num_envs", num_envs)
        self._pace = Pace() if num_workers is None else None
        num_workers = 1 if num_workers is None else episode.as_count("num_workers", num_workers)
        max_turns = None if max_turns is None else episode.as_count("max_turns", max_turns)
        if not isinstance(program, Program | Path | str | Sequence):
            raise TypeError(f"program must be a Program, a key, or a sequence of them, got {program!r}")
        keys = [program] if isinstance(program, Program | Path | str) else list(program)
        if not 0 < len(keys) <= num_envs:
            raise ValueError(
                f"program must be one program or key, or a sequence of at most num_envs={num_envs}, got {len(keys)}"
            )
        located = [locate(key) for key in keys]
        self.programs = tuple(located[index % len(located)] for index in range(num_envs))
        self.num_envs = num_envs
        self.limits = episode.as_limits(limits)
        self.autoreset_mode = _autoreset_mode(autoreset_mode)
        self.metadata = {**type(self).metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = render_mode
        hint_chars = max(len(item.manifest.hint) for item in located) + 16
        self.single_observation_space = Unicode(self.limits.text_chars + hint_chars)
        self.single_action_space = Unicode(self.limits.action_chars)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._hint = episode.as_hint(hint)
        self._max_turns = max_turns
        self._isolation = Isolation.parse(isolation)
        self._num_workers = num_workers
        self._turn_limit = min(max_turns or self.limits.turns, self.limits.turns)
        self._last_only = np.array([item.manifest.reward == "last" for item in self.programs])
        self._any_last_only = bool(self._last_only.any())
        self._lanes: list[Lane] = []
        self._pasts: dict[int, Snapshot] = {}
        self._rngs: list[np.random.Generator | None] = [None] * num_envs
        self._observations: list[str] = [""] * num_envs
        self._actions: list[str | None] = [None] * num_envs
        self._no_faults = np.full(num_envs, "", dtype=object)
        self._none, self._all = np.zeros(num_envs, dtype=np.bool_), np.ones(num_envs, dtype=np.bool_)
        self._longest = 0
        self._begun = self._some_ended = False
        self._clear(range(num_envs))

    def _clear(self, indices: Iterable[int]) -> None:
        if not self._begun:
            self._totals = np.zeros(self.num_envs)
            self._turns = np.zeros(self.num_envs, dtype=np.int64)
            self._ended = np.zeros(self.num_envs, dtype=np.bool_)
            self._seeds = [0] * self.num_envs
            self._reset_faults: dict[int, str] = {}
        for index in indices:
            self._totals[index] = 0.0
            self._turns[index] = 0
            self._ended[index] = False
            self._actions[index] = None
            self._reset_faults.pop(index, None)
        self._some_ended = bool(self._ended.any())

    def _open(self) -> list[Lane]:
        if not self._lanes:
            places: dict[tuple[str, int], list[int]] = {}
            counts: Counter[str] = Counter()
            for index, program in enumerate(self.programs):
                worker = counts[program.digest] % self._num_workers
                counts[program.digest] += 1
                places.setdefault((program.digest, worker), []).append(index)
            for indices in places.values():
                session = self._session(self.programs[indices[0]])
                self._lanes.append(Lane.opened(session, indices))
                for index, slot in self._lanes[-1].slot_of.items():
                    if index in self._pasts:
                        session.restore(slot, self._pasts[index])
            self._pasts = {}
        return self._lanes

    def _session(self, program: Program) -> Session:
        return Session(program, isolation=self._isolation, limits=self.limits, max_turns=self._max_turns)

    def __getstate__(self) -> dict[str, Any]:
        pasts = {
            index: past
            for lane in self._lanes
            for index, slot in lane.slot_of.items()
            if (past := lane.session.past(slot)) is not None
        }
        return {**self.__dict__, "_lanes": [], "_pasts": {**self._pasts, **pasts}}

    # ---- resetting

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Start episodes.

        Args:
            seed: ``None``, one number (environment i gets seed + i), or a list with one entry an environment.
            options: ``hint`` as for ``ProgramEnv``; ``reset_mask``: bool array (num_envs,) of those to reset.

        Raises:
            ProgramFault: A program failed.
            ValueError: A seed list or mask of the wrong length.
        """
        self._refuse_closed()
        chosen = episode.check_options(options, ("hint", "reset_mask"))
        indices = self._chosen(chosen.get("reset_mask"))
        hint = chosen.get("hint", self._hint)
        seeds = self._seed_list(seed)
        batch = self._reset(indices, [seeds[index] for index in indices])
        for fault in batch.faults.values():
            raise fault
        self._begun = True
        infos: dict[str, Any] = {}
        for position, index in enumerate(indices):
            self._observations[index] = self._first(index, batch.observations[position], hint)
            infos = self._add_info(infos, self._reset_info(index, batch.infos.get(position)), index)
        return tuple(self._observations), infos

    def _chosen(self, mask: object) -> list[int]:
        if mask is None:
            return list(range(self.num_envs))
        flags = np.asarray(mask)
        if flags.dtype != np.bool_ or flags.shape != (self.num_envs,) or not flags.any():
            raise ValueError(
                f"reset_mask must be a bool array of shape ({self.num_envs},) with at least one True, got {mask!r}"
            )
        return [int(index) for index in np.flatnonzero(flags)]

    def _seed_list(self, seed: int | Sequence[int | None] | None) -> list[int | None]:
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, Sequence | np.ndarray) and not isinstance(seed, str):
            if len(seed) != self.num_envs:
                raise ValueError(f"a list of seeds needs {self.num_envs} entries, one an environment, got {len(seed)}")
            return [episode.as_seed(item) for item in seed]
        first = episode.as_seed(seed)
        assert first is not None
        return [episode.as_seed(first + index) for index in range(self.num_envs)]

    def _reset(self, indices: Sequence[int], seeds: Sequence[int | None]) -> Batch:
        """Start the episodes of some environments, whose streams go on where no seed is given."""
        self._clear(indices)
        for index, seed in zip(indices, seeds, strict=True):
            if seed is not None:
                self._rngs[index] = seeding.np_random(seed)[0]
                self._seeds[index] = seed
            else:
                rng = self._rngs[index]
                if rng is None:
                    rng = self._rngs[index] = seeding.np_random()[0]
                self._seeds[index] = episode.next_instance(rng)
        return self._exchange("reset", indices, self._seeds)

    def _first(self, index: int, observation: str, hint: bool) -> str:
        return episode.with_hint(self.programs[index], observation) if hint else observation

    def _reset_info(self, index: int, given: dict[str, Any] | None) -> dict[str, Any]:
        program = self.programs[index]
        tools = ""
        if program.setting == "tool_use":
            lane = next(lane for lane in self._open() if index in lane.slot_of)
            tools = json.dumps(lane.session.tools(lane.slot_of[index]))
        info = episode.reset_info(program, self._seeds[index], tools)
        if given:
            episode.add_program_info(info, given)
        return info

    # ---- stepping

    def step(
        self, actions: Sequence[str]
    ) -> tuple[tuple[str, ...], npt.NDArray[np.float64], _Flags, _Flags, dict[str, Any]]:
        """Play one action in every environment (see the class for what happens at the end of an episode).

        Args:
            actions: ``num_envs`` texts.

        Returns:
            Observations (tuple of texts), rewards, terminations, truncations (arrays of shape (num_envs,)), infos.

        Raises:
            ResetNeeded: ``reset`` was never called, or (mode Disabled) a finished environment was not reset.
            TypeError, ValueError: An action is no text, or too long.
        """
        self._refuse_closed()
        if not self._begun:
            raise ResetNeeded("call reset() before step(), also after a step or reset was interrupted")
        if not isinstance(actions, Sequence | np.ndarray) or isinstance(actions, str) or len(actions) != self.num_envs:
            countable = isinstance(actions, Sequence | np.ndarray) and not isinstance(actions, str)
            found = str(len(actions)) if countable else f"a {type(actions).__name__}"
            raise ValueError(f"step needs {self.num_envs} actions, one an environment, got {found}")
        actions = self._checked(actions)
        resetting: list[int] = []
        if self._some_ended:
            if self.autoreset_mode is AutoresetMode.DISABLED:
                raise ResetNeeded(
                    f"environments {np.flatnonzero(self._ended).tolist()} are over: reset them with "
                    "reset(options={'reset_mask': …}) before step()"
                )
            resetting = [int(index) for index in np.flatnonzero(self._ended)]
        rewards, flags, faults, given = self._play(actions, resetting)
        terminated, truncated, infos = self._settle(rewards, flags, resetting, faults)
        restarting: list[int] = []
        if self.autoreset_mode is AutoresetMode.SAME_STEP and self._some_ended:
            restarting = [int(index) for index in np.flatnonzero(self._ended)]
            infos = self._with_finals(infos, restarting, given)
        for index, info in given.items():
            if index not in restarting:
                infos = self._add_info(infos, info, index)
        if restarting or resetting:
            infos = self._autoreset(restarting or resetting, infos)
        return tuple(self._observations), rewards, terminated, truncated, infos

    def _refuse_closed(self) -> None:
        if self.closed:
            raise ClosedEnvironmentError("this vector environment was closed; make a new one")

    def _checked(self, actions: Sequence[str]) -> Sequence[str]:
        """Refuse bad actions; the common case, short ASCII texts, is decided at C speed."""
        try:
            joined = "".join(actions)
        except TypeError:
            joined = "\ud800"
        if not joined.isascii() or len(joined) > self.limits.action_chars or set(map(type, actions)) != {str}:
            check_actions(actions, self.limits.action_chars)
            return [str(action) for action in actions]
        return actions

    def _play(
        self, actions: Sequence[str], skipped: list[int]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64] | None, dict[int, str], dict[int, dict[str, Any]]]:
        """Step every environment that is not to be reset instead.

        Returns:
            Rewards; flags, ``None`` where all are 0; faults, and infos that the programs gave, by place.
        """
        faults = dict(self._reset_faults)
        if not skipped and not faults:
            places: Sequence[int] = range(self.num_envs)
            batch = self._exchange("step", None, actions)
            self._observations, rewards = batch.observations, np.array(batch.rewards)
            flags = np.array(batch.flags) if any(batch.flags) else None
            self._actions = list(actions)
        else:
            idle = {*skipped, *faults}
            places = [index for index in range(self.num_envs) if index not in idle]
            batch = self._exchange("step", places, actions)
            rewards = np.zeros(self.num_envs)
            flags = np.zeros(self.num_envs, dtype=np.int64)
            rewards[places], flags[places] = batch.rewards, batch.flags
            flags[list(faults)] = TRUNCATED
            for position, index in enumerate(places):
                self._observations[index], self._actions[index] = batch.observations[position], actions[index]
        for position, fault in batch.faults.items():
            faults[places[position]] = episode.describe_fault(fault)
        for index in faults:
            self._observations[index] = episode.FAULT_NOTICE
        given: dict[int, dict[str, Any]] = {}
        for position, program_info in batch.infos.items():
            episode.add_program_info(given.setdefault(places[position], {}), program_info)
        return rewards, flags, faults, given

    def _settle(
        self,
        rewards: npt.NDArray[np.float64],
        flags: npt.NDArray[np.int64] | None,
        skipped: list[int],
        faults: dict[int, str],
    ) -> tuple[_Flags, _Flags, dict[str, Any]]:
        """Apply the turn limit and (in place) the reward rule; find the winners."""
        self._longest += 1
        if flags is None and not (faults or self._longest >= self._turn_limit or self._any_last_only):
            return self._settle_quiet(rewards)
        if flags is None:
            flags = np.zeros(self.num_envs, dtype=np.int64)
        terminated, truncated = (flags & TERMINATED).astype(np.bool_), (flags & TRUNCATED).astype(np.bool_)
        if self._any_last_only:
            rewards[self._last_only & ~terminated] = 0.0
        self._turns += 1
        self._totals += rewards
        truncated |= (self._turns >= self._turn_limit) & ~terminated
        stepped = np.ones(self.num_envs, dtype=np.bool_)
        fault_texts = self._no_faults.copy()
        for index, text in faults.items():
            fault_texts[index] = text
        if skipped:
            truncated[skipped] = stepped[skipped] = False
            fault_texts[skipped] = None
        self._ended = terminated | truncated
        self._some_ended = bool(self._ended.any())
        self._longest = int(self._turns.max())
        infos: dict[str, Any] = {
            "is_success": terminated & (self._totals >= WIN_THRESHOLD), "_is_success": stepped,
            "fault": fault_texts, "_fault": stepped.copy(),
        }  # fmt: skip
        return terminated, truncated, infos

    def _settle_quiet(self, rewards: npt.NDArray[np.float64]) -> tuple[_Flags, _Flags, dict[str, Any]]:
        """The common case, in few array operations: nothing ended, nothing failed."""
        self._turns += 1
        self._totals += rewards
        no, yes = self._none, self._all
        self._ended, self._some_ended = no.copy(), False
        infos: dict[str, Any] = {
            "is_success": no.copy(), "_is_success": yes.copy(), "fault": self._no_faults.copy(), "_fault": yes.copy(),
        }  # fmt: skip
        return no.copy(), no.copy(), infos

    def _exchange(self, operation: str, places: Sequence[int] | None, values: Sequence[Any]) -> Batch:
        """Send every worker its share, then collect: workers run side by side. Results in the order of ``places``."""
        lanes = self._open()
        started = _monotonic()
        try:
            batch = self._collect(lanes, operation, places, values)
            if operation == "step" and self._pace and self._pace.wants_more(_monotonic() - started, lanes):
                self._add_lane()
            return batch
        except BaseException:  # Ctrl-C in the middle: some places have moved on and some have not
            for lane in lanes:
                lane.session.close()
            self._begun = False
            raise

    def _add_lane(self) -> None:
        """Give half of the longest lane to a further worker."""
        longest = max(self._lanes, key=lambda lane: len(lane.indices))
        halves = longest.split(self._session(longest.session.program))
        if halves is None:
            self._pace = None  # a program that cannot be replayed stays where it is
            return
        moved = [longest.slot_of[index] for index in halves[1].indices]
        self._lanes = [lane for lane in self._lanes if lane is not longest] + list(halves)
        for slot in moved:
            longest.session.close_slot(slot)

    def _collect(self, lanes: list[Lane], operation: str, places: Sequence[int] | None, values: Sequence[Any]) -> Batch:
        if len(lanes) == 1 and places is None:
            lanes[0].session.begin(operation, list(zip(lanes[0].slots, values, strict=True)))
            return lanes[0].session.finish()
        chosen = range(self.num_envs) if places is None else places
        shares = [[index for index in chosen if index in lane.slot_of] for lane in lanes]
        for lane, share in zip(lanes, shares, strict=True):
            lane.session.begin(operation, [(lane.slot_of[index], values[index]) for index in share])
        batches = [lane.session.finish() for lane in lanes]
        if len(lanes) == 1:
            return batches[0]
        return _interleave(chosen, shares, batches)

    def _with_finals(
        self, infos: dict[str, Any], ended: list[int], given: Mapping[int, dict[str, Any]]
    ) -> dict[str, Any]:
        """Keep the last observations and infos of environments that are about to be reset."""
        for index in ended:
            final = {
                "is_success": bool(infos["is_success"][index]), "fault": infos["fault"][index], **given.get(index, {})
            }  # fmt: skip
            infos = self._add_info(infos, {"final_obs": self._observations[index], "final_info": final}, index)
        return infos

    def _autoreset(self, indices: list[int], infos: dict[str, Any]) -> dict[str, Any]:
        batch = self._reset(indices, [None] * len(indices))
        for position, index in enumerate(indices):
            try:
                if position in batch.faults:
                    raise batch.faults[position]
                info = self._reset_info(index, batch.infos.get(position))
            except ProgramFault as fault:
                self._reset_faults[index] = episode.describe_fault(fault)
                self._observations[index] = episode.FAULT_NOTICE
                continue
            self._observations[index] = self._first(index, batch.observations[position], self._hint)
            infos = self._add_info(infos, info, index)
        return infos

    # ---- looking

    @property
    def commands(self) -> tuple[tuple[str, ...], ...]:
        """For every environment, the commands that its manifest declares, else those its last observation announces."""
        return tuple(
            episode.commands_of(program, text) for program, text in zip(self.programs, self._observations, strict=True)
        )

    @property
    def instance_seeds(self) -> tuple[int, ...]:
        """Seeds of the present instances."""
        return tuple(self._seeds)

    def render(self) -> tuple[str, ...] | None:
        """Return the present turn of every environment as text (``ansi``)."""
        if self.render_mode is None:
            return None
        return tuple(
            frame(program.name, int(turns), self._turn_limit, float(total), action, text)
            for program, turns, total, action, text in zip(
                self.programs, self._turns, self._totals, self._actions, self._observations, strict=True
            )
        )

    def close_extras(self, **kwargs: Any) -> None:
        """End the workers."""
        for lane in self._lanes:
            lane.session.close()
        self._lanes = []


def _autoreset_mode(value: AutoresetMode | str) -> AutoresetMode:
    try:
        return AutoresetMode(value)
    except ValueError:
        modes = ", ".join(repr(mode.value) for mode in AutoresetMode)
        raise ValueError(f"autoreset_mode must be one of {modes}, got {value!r}") from None


def _interleave(chosen: Sequence[int], shares: list[list[int]], batches: list[Batch]) -> Batch:
    """Put the results of several workers into the order of ``chosen``."""
    place_of = {index: place for place, index in enumerate(chosen)}
    size = len(chosen)
    merged = Batch([""] * size, [0.0] * size, [0] * size, {}, {})
    for share, batch in zip(shares, batches, strict=True):
        for position, index in enumerate(share):
            place = place_of[index]
            merged.observations[place] = batch.observations[position]
            merged.rewards[place] = batch.rewards[position]
            merged.flags[place] = batch.flags[position]
        merged.infos.update((place_of[share[position]], info) for position, info in batch.infos.items())
        merged.faults.update((place_of[share[position]], fault) for position, fault in batch.faults.items())
    return merged
