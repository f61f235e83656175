"""A curriculum as one Gymnasium environment, for any trainer and any worker process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium.error import ResetNeeded

from spade_gym.curriculum.finite import true_or_false
from spade_gym.curriculum.ignored_options import IgnoredOptions
from spade_gym.curriculum.play import CurriculumPlays, Judge, ListedPlays, Play, Success, checked_success, status_of
from spade_gym.curriculum.service import AsksAndTells
from spade_gym.curriculum.task import Outcome, Task
from spade_gym.curriculum.task_environments import Env, Make, TaskEnvironments
from spade_gym.envs.episode import as_seed
from spade_gym.errors import ProgramFault, SpadeError

_ATTEMPTS = 20


class CurriculumEnv(gymnasium.Env[Any, Any]):
    """Plays whatever the curriculum hands out, and tells it how every episode went.

    Each reset asks for a ticket, applies its task and starts the instance of the ticket's seed. When the episode ends
    (terminated or truncated), its outcome is told before ``step`` returns. A reset in the middle of an episode, and
    ``close``, tell ``aborted``; a reset before the first step starts the same play again. A program's fault is told as
    ``env_error`` or ``timeout``, and a program that fails in a reset is skipped. An exception of any other
    environment is raised, and told as ``env_error`` by the next reset or ``close``.

    Every info has, besides the environment's own: ``task_id`` (text), ``ticket`` (int), ``arm`` (``plain`` or
    ``hint``), ``train`` (bool: whether to learn from the play) and ``instance_seed`` (int).

    In worker processes give the address of a ``CurriculumServer``; it is connected to at the first reset.

    Args:
        env: A Gymnasium id, or a function that makes an environment. Tasks of kind ``make`` are keyword arguments for
            it, ``reset`` the options of its reset, ``attribute`` attributes to set. Absent: the tasks are programs.
            An environment may ignore options: with ``reset``, the default kind of ``Parameters``, CartPole keeps its
            gravity whatever the task says. Where an attribute of the option's name stays as it was, a ``UserWarning``
            says so, once; for such environments it must be ``Parameters(…, kind="attribute")``.
        curriculum: A ``Curriculum``, ``DurableCurriculum``, ``CurriculumServer``, ``Client``, or a server's address;
            for evaluation also a sequence of tasks, played in turn.
        evaluation: Never tell.
        success: Whether an episode was won, where the info has no ``is_success``: a function of the last info and the
            total, or the least total that wins; absent: a total at the top of the declared range.
        actor: Name of this actor, for tickets.
        told_by: ``env``; or ``trainer``: the last info then has ``outcome``, for ``outcome_of`` and a later ``tell``.
        wrap, apply, example, program_options, pool, num_kept: As for ``TaskEnvironments``.

    Raises:
        TypeError, ValueError: An argument does not fit.
        SpadeError: The curriculum is a copy of another process's.

    Example:
        >>> import gymnasium
        >>> from spade_gym.curriculum.curriculum_env import CurriculumEnv
        >>> from spade_gym.curriculum.task import Task
        >>> tasks = [Task("attribute", {"gravity": g}) for g in (8.0, 9.8)]
        >>> env = CurriculumEnv("CartPole-v1", tasks, evaluation=True)
        >>> sorted(env.reset(seed=1)[1])
        ['arm', 'instance_seed', 'task_id', 'ticket', 'train']
    """

    def __init__(
        self,
        env: str | Make | None,
        curriculum: AsksAndTells | Sequence[Task] | str,
        *,
        evaluation: bool = False,
        success: Success | None = None,
        actor: str = "",
        told_by: str = "env",
        wrap: Callable[[Env], Env] | None = None,
        apply: Callable[[Env, Task], None] | None = None,
        example: Task | None = None,
        program_options: Mapping[str, Any] | None = None,
        pool: Path | str | None = None,
        num_kept: int = 8,
    ) -> None:
        if told_by not in ("env", "trainer"):
            raise ValueError(f"told_by must be 'env' or 'trainer', got {told_by!r}")
        true_or_false("evaluation", evaluation)
        self.policy_version = 0
        self._plays = plays_of(curriculum, evaluation=evaluation, actor=actor)
        self._success = checked_success(success)
        self._told_by_trainer = told_by == "trainer" and not evaluation
        self._environments = TaskEnvironments(
            env, wrap=wrap, apply=apply, example=example, program_options=program_options, pool=pool, num_kept=num_kept
        )
        self.observation_space = self._environments.observation_space
        self.action_space = self._environments.action_space
        self.metadata = self._environments.metadata
        self.render_mode = self._environments.render_mode
        self._ignored = IgnoredOptions()
        self._judge: Judge | None = None
        self._env: Env | None = None
        self._play: Play | None = None
        self._labels: dict[str, Any] = {}
        self._total, self._length = 0.0, 0
        self._failed = False

    # ---- playing

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start the next play.

        Args:
            seed: Seeds this actor's own generator; the instance's seed comes with the ticket.
            options: Handed on to the environment's reset; a task's own options win.

        Raises:
            EmptyCurriculum: There is nothing to play.
            ServiceError: The curriculum's server is gone.
            SpaceMismatch: A task's environment has other spaces.
        """
        seed = as_seed(seed)
        super().reset(seed=seed)
        if seed is not None and isinstance(self._plays, ListedPlays):
            self._plays.restart()
            self._play = None
        if self._length or self._failed:
            self._give_up()
        for _ in range(_ATTEMPTS):
            self._play = self._play or self._plays.next(self.np_random)
            try:
                return self._start(self._play, options)
            except ProgramFault as fault:
                last = fault
                self._close_play(Outcome(self._play.ticket.id, self._play.seed, status=status_of(fault)))
            except Exception:
                self._failed = True
                self._give_up()
                raise
        raise SpadeError(f"{_ATTEMPTS} plays in a row failed in their reset; the last: {last}") from last

    def _start(self, play: Play, options: dict[str, Any] | None) -> tuple[Any, dict[str, Any]]:
        env, chosen, hint = self._environments.prepare(play.ticket)
        merged = {**(options or {}), **chosen}
        before = self._ignored.before(env, play.ticket.task)
        observation, info = env.reset(seed=play.seed, options=merged or None)
        self._ignored.after(env, before)
        self._env = env
        self._total, self._length, self._failed = 0.0, 0, False
        self._labels = play.labels
        info.update(self._labels)
        return (f"{observation}\n\nHINT: {hint}" if hint else observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Play one action; at the end of the episode its outcome is told before this returns.

        Raises:
            ResetNeeded: The episode is over, or none was begun.
            ValueError: The episode's total is outside the declared range.
            ServiceError: The curriculum's server is gone; the outcome is kept, and told by the next reset or ``close``
                if a server is back by then.
        """
        if self._env is None:
            raise ResetNeeded("the episode is over (or none was begun): call reset() before step()")
        try:
            observation, reward, terminated, truncated, info = self._env.step(action)
        except Exception:
            self._failed = True
            raise
        self._total += float(reward)
        self._length += 1
        info.update(self._labels)
        if terminated or truncated:
            self._end(info)
        return observation, reward, terminated, truncated, info

    def _end(self, info: dict[str, Any]) -> None:
        if self._judge is None:
            self._judge = Judge(self._plays.return_range, self._success)
        assert self._play is not None
        try:
            outcome = self._judge.outcome(
                self._play, self._total, self._length, info, policy_version=self.policy_version
            )
        except ValueError:
            self._give_up()
            raise
        if self._told_by_trainer and outcome.status == "ok":
            info["outcome"] = {name: getattr(outcome, name) for name in _FIELDS}
            self._forget()
        else:
            self._close_play(outcome)

    def _give_up(self) -> None:
        if self._play is not None:
            status = "env_error" if self._failed else "aborted"
            self._close_play(Outcome(self._play.ticket.id, self._play.seed, length=self._length, status=status))  # type: ignore[arg-type]

    def _close_play(self, outcome: Outcome) -> None:
        self._forget()
        self._plays.tell(outcome)

    def _forget(self) -> None:
        self._env = self._play = None
        self._total, self._length, self._failed = 0.0, 0, False

    def set_policy_version(self, version: int) -> None:
        """Set what outcomes from now on name as the player's version."""
        self.policy_version = version

    def close(self) -> None:
        """Give up the present play, flush, and close the environments; harmless when repeated.

        Raises:
            ServiceError: The curriculum's server is gone, and outcomes could not be told.
        """
        try:
            if self._plays.owned:
                self._forget()  # the server gives it up when the client disconnects
            else:
                self._give_up()
            self._plays.close()
        finally:
            self._environments.close()

    # ---- looking

    @property
    def task(self) -> Task | None:
        """The task being played; ``None`` between episodes."""
        return None if self._play is None else self._play.ticket.task

    @property
    def inner(self) -> Env | None:
        """The environment that plays the present task, with its wrappers; ``None`` between episodes."""
        return self._env

    def render(self) -> Any:
        """Render the environment that plays the present task."""
        return None if self._env is None else self._env.render()

    def has_wrapper_attr(self, name: str) -> bool:
        """Whether this, or the environment that plays the present task, has an attribute."""
        return hasattr(self, name) or (self._env is not None and self._env.has_wrapper_attr(name))

    def get_wrapper_attr(self, name: str) -> Any:
        """Return an attribute of this, or of the environment that plays the present task."""
        if not hasattr(self, name) and self._env is not None:
            return self._env.get_wrapper_attr(name)
        return getattr(self, name)


_FIELDS = ("ticket", "seed", "total", "won", "length", "policy_version")


def outcome_of(info: Mapping[str, Any], *, value: float | None = None) -> Outcome:
    """Return the outcome in the last info of an episode (with ``told_by="trainer"``), with the trainer's value."""
    return Outcome(**info["outcome"], value=value)


def plays_of(
    curriculum: AsksAndTells | Sequence[Task] | str, *, evaluation: bool, actor: str
) -> CurriculumPlays | ListedPlays:
    """Return the source of plays for an environment.

    Raises:
        TypeError: It neither asks, nor is an address, nor (for evaluation) a sequence of tasks.
    """
    if isinstance(curriculum, Sequence) and not isinstance(curriculum, str):
        if not evaluation:
            raise TypeError("a sequence of tasks is for evaluation=True; make a Curriculum of it to train on them")
        return ListedPlays(curriculum)
    return CurriculumPlays(curriculum, actor=actor, tells=not evaluation)
