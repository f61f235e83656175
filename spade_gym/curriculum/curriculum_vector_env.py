"""A curriculum as one Gymnasium vector environment: programs in a batch, any family in this or in other processes."""

from __future__ import annotations

import functools
import multiprocessing
from collections.abc import Sequence
from typing import Any, Literal, get_args

import gymnasium
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorWrapper

from spade_gym.curriculum.curriculum_env import CurriculumEnv, plays_of
from spade_gym.curriculum.finite import true_or_false, whole_number
from spade_gym.curriculum.program_batch import ProgramBatch
from spade_gym.curriculum.service import AsksAndTells, CurriculumServer
from spade_gym.curriculum.task import Task
from spade_gym.curriculum.task_environments import Make
from spade_gym.envs.spaces import Unicode
from spade_gym.errors import SpadeError

Vectorization = Literal["batch", "sync", "async"]


class WorkerDied(SpadeError):
    """A worker process of a vector environment has ended; what it had told is kept, its play is given up."""


class CurriculumVectorEnv(VectorWrapper[Any, Any, Any]):
    """Plays a curriculum's tickets in many environments at once; every one behaves as a ``CurriculumEnv``.

    Args:
        env: A Gymnasium id, or a function that makes an environment; absent: the tasks are programs.
        curriculum: As for ``CurriculumEnv``. For ``async``, a curriculum of this process is served to the workers for
            as long as this is open: use it through ``server.locked()`` meanwhile.
        num_envs: Number of environments.
        vectorization_mode: ``batch`` (programs only: one message a worker and step), ``sync`` (all in this process) or
            ``async`` (a process each); absent: ``batch`` for programs without ``wrap``, else ``sync``.
        autoreset_mode: ``NextStep`` (default), ``SameStep`` or ``Disabled``, or Gymnasium's ``AutoresetMode``.
        context: Start method of the processes: ``forkserver`` (where there is one; the default), ``spawn`` or ``fork``,
            which may deadlock in a process with threads, as that of a server is.
        evaluation: Never tell.
        options: More arguments of ``CurriculumEnv``, or (``batch``) of ``ProgramBatch``.

    Attributes:
        server: The server for the workers, or ``None``.

    Raises:
        ValueError: An argument is out of range.

    Example:
        >>> from spade_gym.curriculum.curriculum_vector_env import CurriculumVectorEnv
        >>> from spade_gym.curriculum.task import Task
        >>> tasks = [Task("attribute", {"gravity": g}) for g in (8.0, 9.8)]
        >>> envs = CurriculumVectorEnv("CartPole-v1", tasks, num_envs=2, evaluation=True)
        >>> envs.reset(seed=1)[0].shape
        (2, 4)
        >>> envs.close()
    """

    def __init__(
        self,
        env: str | Make | None,
        curriculum: AsksAndTells | Sequence[Task] | str,
        *,
        num_envs: int = 8,
        vectorization_mode: Vectorization | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        context: str | None = None,
        evaluation: bool = False,
        **options: Any,
    ) -> None:
        mode = vectorization_mode or ("batch" if env is None and options.get("wrap") is None else "sync")
        if mode not in get_args(Vectorization):
            raise ValueError(f"vectorization_mode must be one of {', '.join(get_args(Vectorization))}, got {mode!r}")
        whole_number("num_envs", num_envs, least=1)
        true_or_false("evaluation", evaluation)
        if mode == "batch" and env is not None:
            raise ValueError("vectorization_mode 'batch' is for programs (env=None); use 'sync' or 'async' here")
        autoreset_mode = AutoresetMode(autoreset_mode)
        self.server: CurriculumServer | None = None
        self._evaluation = evaluation
        if mode == "batch":
            plays = plays_of(curriculum, evaluation=evaluation, actor=options.pop("actor", ""))
            envs: Any = ProgramBatch(num_envs, plays, autoreset_mode=autoreset_mode, **options)
        elif mode == "sync":
            envs = SyncVectorEnv(self._makers(env, curriculum, num_envs, options), autoreset_mode=autoreset_mode)
        else:
            source = self._served(curriculum)
            makers = self._makers(env, source, num_envs, options)
            try:
                envs = AsyncVectorEnv(
                    makers,
                    autoreset_mode=autoreset_mode,
                    context=context or _start_method(),
                    shared_memory=not _is_text(makers[0]),
                )
            except BaseException:
                self._close_server()
                raise
        super().__init__(envs)

    def _served(self, curriculum: Any) -> Any:
        """Return what worker processes can use: an address, or tasks."""
        if isinstance(curriculum, str | list | tuple):
            return curriculum
        if hasattr(curriculum, "address"):
            return curriculum.address
        plays_of(curriculum, evaluation=False, actor="")
        self.server = CurriculumServer(curriculum)
        return self.server.address

    def _makers(self, env: Any, curriculum: Any, num_envs: int, options: dict[str, Any]) -> list[Any]:
        actor = options.pop("actor", "")
        make = functools.partial(CurriculumEnv, env, curriculum, evaluation=self._evaluation, **options)
        return [functools.partial(make, actor=f"{actor}{index}") for index in range(num_envs)]

    # ---- playing

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start plays; seeds are those of the actors, as for ``CurriculumEnv``.

        Raises:
            WorkerDied: A worker process has ended.
        """
        try:
            observations, infos = self.env.reset(seed=seed, options=options)  # type: ignore[arg-type]
        except (EOFError, ConnectionError) as error:
            if not hasattr(self.env, "processes"):
                raise
            raise self._died() from error
        return observations, infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Play one action in each environment; ends of episodes are told before this returns.

        Raises:
            WorkerDied: A worker process has ended.
        """
        try:
            return self.env.step(actions)
        except (EOFError, ConnectionError) as error:
            if not hasattr(self.env, "processes"):
                raise
            raise self._died() from error

    def set_policy_version(self, version: int) -> None:
        """Set what outcomes from now on name as the player's version."""
        if isinstance(self.env, ProgramBatch):
            self.env.set_policy_version(version)
        else:
            self.env.call("set_policy_version", version)  # type: ignore[attr-defined]

    def _died(self) -> WorkerDied:
        codes = {}
        for index, process in enumerate(getattr(self.env, "processes", ())):
            process.join(0.2)
            if process.exitcode is not None:
                codes[index] = process.exitcode
        self._end_processes()
        return WorkerDied(
            f"worker processes of the vector environment have ended (environment: exit code {codes}; -9: killed, for "
            "example for lack of memory). Every outcome told before is kept, and the plays that were going on are "
            "given up. Make the vector environment anew to go on"
        )

    def _end_processes(self) -> None:
        """Close without waiting for the answers that will not come."""
        for process, pipe in zip(
            getattr(self.env, "processes", ()), getattr(self.env, "parent_pipes", ()), strict=True
        ):
            process.terminate()
            process.join()
            if pipe is not None:
                pipe.close()
        self.env.closed = True
        self._close_server()

    def close(self, **kwargs: Any) -> None:
        """Give up what is being played, flush, and close the environments and an own server.

        Raises:
            ServiceError: The curriculum's server is gone, and outcomes could not be told.
        """
        try:
            self.env.close(**kwargs)
        finally:
            self._close_server()

    def _close_server(self) -> None:
        if self.server is not None:
            self.server.close()


def _start_method() -> str:
    return "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"


def _is_text(make: Any) -> bool:
    """Whether observations hold texts, which shared memory cannot carry."""
    env = make()
    try:
        return _holds_text(env.observation_space)
    finally:
        env.close()


def _holds_text(space: gymnasium.Space[Any]) -> bool:
    if isinstance(space, gymnasium.spaces.Dict):
        return any(_holds_text(part) for part in space.values())
    if isinstance(space, gymnasium.spaces.Tuple):
        return any(_holds_text(part) for part in space)
    return isinstance(space, Unicode | gymnasium.spaces.Text)


__all__ = ["CurriculumVectorEnv", "WorkerDied"]
