"""Which environment plays a task? Makes it, keeps the last few, and sees that their spaces agree."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
from gymnasium.spaces import Space

from spade_gym.curriculum.task import Task, Ticket
from spade_gym.envs.program_env import ProgramEnv
from spade_gym.envs.spaces import Unicode
from spade_gym.errors import SpadeError
from spade_gym.locate import locate
from spade_gym.pool import Pool
from spade_gym.programs.program import Program
from spade_gym.sandbox.base import Limits

Env = gymnasium.Env[Any, Any]
Make = Callable[..., Env]
#: Longest hint that an observation space of programs makes room for, in characters.
HINT_CHARS = 65_536
_BASE = "the base environment"


class SpaceMismatch(SpadeError, ValueError):
    """A task whose environment has other spaces than the one that the agent plays in."""


class Prepared(NamedTuple):
    """An environment to which a task was applied.

    Attributes:
        env: To be reset next.
        options: For its reset.
        hint: Text to append to the first observation; "" for none.
    """

    env: Env
    options: dict[str, Any]
    hint: str


class TaskEnvironments:
    """Environments for tasks.

    Args:
        env: A Gymnasium id or a function that makes an environment; tasks of kind ``make`` are its keyword arguments.
            Absent: the tasks are programs.
        wrap: Applied to every environment that is made.
        apply: Called with the environment and the task, before every reset, for tasks of kind ``attribute``; absent:
            their values are set as attributes of the innermost environment.
        example: A task from whose environment the spaces are taken; absent: ``env`` made without arguments.
        program_options: More arguments of ``ProgramEnv``.
        pool: A pool folder in which programs are looked up first.
        num_kept: How many environments are kept; each of a program keeps a worker process.

    Raises:
        ValueError: The spaces cannot be known, or a number is out of range.
    """

    def __init__(
        self,
        env: str | Make | None = None,
        *,
        wrap: Callable[[Env], Env] | None = None,
        apply: Callable[[Env, Task], None] | None = None,
        example: Task | None = None,
        program_options: Mapping[str, Any] | None = None,
        pool: Path | str | None = None,
        num_kept: int = 8,
    ) -> None:
        if num_kept < 1:
            raise ValueError(f"num_kept must be at least 1, got {num_kept!r}")
        if env is not None and not isinstance(env, str) and not callable(env):
            raise TypeError(
                f"env must be a Gymnasium id, a function that makes an environment (so that tasks can have one each), "
                f"or absent for programs, got {type(env).__name__}"
            )
        self._make = env
        self._wrap = wrap
        self._apply = apply
        self._program_options = dict(program_options or {})
        self._pool = None if pool is None else Pool(pool)
        self._num_kept = num_kept
        self._kept: OrderedDict[tuple[str, str], Env] = OrderedDict()
        self.observation_space, self.action_space, self.metadata, self.render_mode = self._look(example)

    def _look(self, example: Task | None) -> tuple[Space[Any], Space[Any], dict[str, Any], str | None]:
        if example is None and self._make is None:
            if self._wrap is not None:
                raise ValueError(
                    "with `wrap`, the spaces depend on the program: give `example`, a Task whose spaces all tasks have"
                )
            limits = self._program_options.get("limits")
            limits = limits if isinstance(limits, Limits) else Limits(**(limits or {}))
            mode = self._program_options.get("render_mode")
            spaces = Unicode(limits.text_chars + HINT_CHARS), Unicode(limits.action_chars)
            return (*spaces, ProgramEnv.metadata, mode)
        env = self._base() if example is None else self._env_of(example)
        return env.observation_space, env.action_space, env.metadata, env.render_mode

    # ---- making

    def prepare(self, ticket: Ticket) -> Prepared:
        """Return the environment for a ticket, with its task applied.

        Raises:
            SpaceMismatch: Its spaces are others than those of this object.
            SpadeError: There is no such program.
            ValueError: The task, or its hint, cannot be applied.
        """
        task = ticket.task
        env = self.check(task)
        hinted = ticket.arm == "hint"
        if task.kind == "program":
            return Prepared(env, {"hint": True} if hinted else {}, "")
        options: dict[str, Any] = {}
        if task.kind == "reset":
            options = dict(task.value)
        elif task.kind == "attribute":
            self._set(env, task)
        if hinted and (not task.hint or not isinstance(env.observation_space, Unicode | gymnasium.spaces.Text)):
            raise ValueError(
                f"task {task.id} is to be played with its hint, but it has none, or its observations are no texts to "
                "which one could be appended: choose a curriculum without hint plays"
            )
        return Prepared(env, options, task.hint if hinted else "")

    def _env_of(self, task: Task) -> Env:
        if task.kind not in ("program", "make"):
            return self._base()
        key = (task.id, task.hint if task.kind == "program" else "")
        if key not in self._kept:
            made = self._program_env(task) if task.kind == "program" else self._made(dict(task.value), task)
            self._keep(key, made if self._wrap is None else self._wrap(made))
        self._kept.move_to_end(key)
        return self._kept[key]

    def _base(self) -> Env:
        key = (_BASE, "")
        if key not in self._kept:
            made = self._made({}, None)
            self._keep(key, made if self._wrap is None else self._wrap(made))
        self._kept.move_to_end(key)
        return self._kept[key]

    def _keep(self, key: tuple[str, str], env: Env) -> None:
        self._kept[key] = env
        while len(self._kept) > self._num_kept:
            _, oldest = self._kept.popitem(last=False)
            oldest.close()

    def _made(self, arguments: dict[str, Any], task: Task | None) -> Env:
        if self._make is None:
            kind = "this" if task is None else f"a task of kind {task.kind!r}"
            raise ValueError(f"{kind} needs `env`: a Gymnasium id, or a function that makes an environment")
        try:
            if isinstance(self._make, str):
                return gymnasium.make(self._make, **arguments)
            return self._make(**arguments)
        except TypeError as error:
            if task is None:
                raise ValueError(
                    f"`env` cannot be made without arguments ({error}): give `example`, a Task that it can be made from"
                ) from error
            raise

    def _program_env(self, task: Task) -> Env:
        program = find_program(task, self._pool)
        rest = {key: value for key, value in task.value.items() if key != "program"}
        return ProgramEnv(program, **{**rest, **self._program_options})

    def _set(self, env: Env, task: Task) -> None:
        if self._apply is not None:
            self._apply(env, task)
            return
        for name, value in task.value.items():
            if not hasattr(env.unwrapped, name):
                raise ValueError(
                    f"task {task.id} sets the attribute {name!r}, which {type(env.unwrapped).__name__} does not have; "
                    "set attributes that it reads in reset(), or give `apply`"
                )
            setattr(env.unwrapped, name, value)

    # ---- checking

    def check(self, task: Task) -> Env:
        """Return the environment that plays a task, which has not been applied to it yet.

        Raises:
            SpaceMismatch: Its spaces are others than those of this object.
            SpadeError: There is no such program.
            ValueError: It cannot be made.
        """
        env = self._env_of(task)
        self._check_spaces(env, task)
        return env

    def _check_spaces(self, env: Env, task: Task) -> None:
        for name, wanted, got in (
            ("observation", self.observation_space, env.observation_space),
            ("action", self.action_space, env.action_space),
        ):
            if wanted is not got and not _agree(wanted, got):
                raise SpaceMismatch(
                    f"the environment of task {task.id} ({task.kind}: {dict(task.value)!s:.200}) has the {name} space "
                    f"{got}, and this one was made for {wanted}: tasks of one curriculum need equal spaces; wrap them "
                    "(`wrap`) into common ones"
                )

    def close(self) -> None:
        """Close all; they are made again when needed."""
        while self._kept:
            _, env = self._kept.popitem()
            env.close()


def _agree(wanted: Space[Any], got: Space[Any]) -> bool:
    """Whether an agent of one space can play in another: equal ones, and texts of any length."""
    return wanted == got or (isinstance(wanted, Unicode) and isinstance(got, Unicode))


def find_program(task: Task, pool: Pool | None = None) -> Program:
    """Return the program of a task, with the task's hint in place of its own.

    Raises:
        SpadeError: There is no such program.
        ValueError: The task names none.
    """
    key = task.value.get("program")
    if not isinstance(key, str):
        raise ValueError(f"the value of a task of kind 'program' must be {{'program': key}}, got {dict(task.value)!r}")
    known = pool is not None and (pool.path / key).is_dir()
    program = pool.get(key) if pool is not None and known else locate(key)
    return program.with_manifest(hint=task.hint) if task.hint else program
