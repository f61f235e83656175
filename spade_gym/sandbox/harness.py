"""Runs one program: loads it, keeps its instances apart, and turns what it returns into plain rows.

This is the code that stands next to the untrusted program, inside the worker (or inside this process at L0).
A reset runs the module in a fresh namespace, so nothing survives from one episode to the next and instances
share nothing.
"""

from __future__ import annotations

import builtins
import dataclasses
import linecache
import sys
import types
from typing import Any

import msgspec

from spade_gym.sandbox import adapt, savepoint
from spade_gym.sandbox.audit import PROGRAM_FILE, AuditLog
from spade_gym.sandbox.base import World
from spade_gym.sandbox.conversion import BadResult, encoded_info, safe_repr, to_plain
from spade_gym.sandbox.fingerprint import fingerprint
from spade_gym.sandbox.memory import Memory
from spade_gym.sandbox.reach import Surroundings, reaches_out
from spade_gym.sandbox.savepoint import MODULE_NAME
from spade_gym.sandbox.tool_use import ToolUseBaseEnv
from spade_gym.sandbox.wire import FAILED, TERMINATED, TRUNCATED, VALUE_BYTES
from spade_gym.sandbox.world import Stage, Universe

_MAX_SAVE_POINTS = 256
_WARM_UP = """
import random


class WarmUpEnv:
    def reset(self, seed=None):
        self.number = random.Random(seed).random()
        return f"{self.number}", {}

    def step(self, action):
        return action, 0.0, True, False, {}
"""

#: Observation (or error), reward, flags of ``wire.py``, encoded info.
Row = tuple[str, float, int, msgspec.Raw | None]


class Instance:
    """One running environment of the program."""

    __slots__ = ("environment", "module", "step", "universe")

    def __init__(self, environment: Any, module: dict[str, Any], universe: Universe) -> None:
        self.environment = environment
        self.module = module
        self.universe = universe
        self.step: Any = environment.step


class Harness:
    """The operations that a session may ask for, over one program.

    Args:
        stage: Holder of the active universe (its patches are installed by the caller).
        interruptible: Whether a ``KeyboardInterrupt`` is the user's, and not the program's fault (L0).
        around: The modules that programs may use, as they are before any runs; absent: as they are at the first load.
    """

    def __init__(self, stage: Stage, *, interruptible: bool = False, around: Surroundings | None = None) -> None:
        self._given_around = around
        self._stage = stage
        self._interruptible = interruptible
        self._instances: dict[int, Instance] = {}
        self._names: dict[str, Any] = {}
        self._notes: dict[str, None] = {}
        self._told = 0
        self._save_points: dict[int, tuple[int, Instance, savepoint.State, tuple[Any, ...]]] = {}
        self._num_save_points = 0
        self._audit = AuditLog()
        self._memory = Memory()
        self._reaches_out: bool | None = None
        self._enters_at_once = False

    def new_adapters(self) -> list[str]:
        """Names of adapters that came into use since the last call."""
        if len(self._notes) == self._told:
            return []
        names = list(self._notes)[self._told :]
        self._told = len(self._notes)
        return names

    def _note(self, name: str) -> None:
        self._notes[name] = None

    # ---- loading

    def load(
        self,
        source: str,
        class_name: str,
        arguments: dict[str, Any],
        world: dict[str, Any],
        text_chars: int,
        draws_globally: bool = True,
    ) -> dict[str, Any]:
        """Compile the program, make one instance with seed 0 and describe it.

        Raises:
            Exception: Whatever the program raises; :func:`describe` turns it into text.
        """
        self._world = World(**world)
        self._class_name = class_name
        self._arguments = arguments
        self._text_chars = text_chars
        self._source, self._reaches_out = source, None
        self._around = self._given_around = self._given_around or Surroundings()
        if self._world.audit:
            self._audit.start()
        linecache.cache[PROGRAM_FILE] = (len(source), None, source.splitlines(keepends=True), PROGRAM_FILE)
        self._code = compile(source, PROGRAM_FILE, "exec", dont_inherit=True)
        self._stage.switches_random = draws_globally
        if "numpy" in sys.modules and "random" in source and "numpy" in source:
            self._stage.use_numpy_globals()
        if "sympy.core.random" in sys.modules and "sympy" in source:
            self._stage.use_sympy_globals()
        self._enters_at_once = self._stage.is_only_pointed_at
        instance = self._make(0)
        environment = instance.environment
        return {
            "class_name": type(environment).__name__,
            "has_solution": callable(getattr(environment, "solution", None)),
            "max_turns": adapt.turn_limit(environment),
            "base": adapt.base_of(environment),
        }

    def warm_up(self) -> None:
        """Load and play a program of no interest: a fresh fork has to copy the pages that this writes to (2 ms)."""
        self.load(_WARM_UP, "WarmUpEnv", {}, dataclasses.asdict(World()), len(_WARM_UP))
        self.reset(0, 0)
        self.step(0, "")
        self.drop(0)

    def _make(self, seed: int) -> Instance:
        universe = Universe(seed, self._world)
        self._stage.enter(universe)
        names = self._namespace()
        kind = names.get(self._class_name)
        if not isinstance(kind, type):
            raise BadResult(f"the program defines no class {self._class_name} when it runs")
        environment = adapt.construct(kind, self._arguments, self._note)
        return Instance(environment, names, universe)

    def _namespace(self) -> dict[str, Any]:
        """Run the module, in a namespace of its own unless the world asks for one for all."""
        if self._world.one_namespace and self._names:
            return self._names
        module = types.ModuleType(MODULE_NAME)
        self._names = names = module.__dict__
        names["__builtins__"] = builtins.__dict__
        names["ToolUseBaseEnv"] = ToolUseBaseEnv
        sys.modules[MODULE_NAME] = module
        exec(self._code, names)
        return names

    def _instance(self, slot: int, seed: int) -> Instance:
        """The instance for an episode: a new one, or the slot's own again where the world has one namespace."""
        instance = self._instances.get(slot)
        if instance is None or not self._world.one_namespace:
            return self._make(seed)
        instance.universe = Universe(seed, self._world)
        self._stage.enter(instance.universe)
        return instance

    # ---- playing

    def reset(self, slot: int, seed: int) -> Row:
        """Start an episode of a slot; a program that fails gives a failed row."""
        try:
            self._make_room()
            instance = self._instance(slot, seed)
            self._instances[slot] = instance
            observation, info = adapt.reset(instance.environment, seed, self._note)
            instance.step = adapt.step_function(instance.environment, self._note)
            return self._row(observation, 0.0, False, False, info)
        except BaseException as error:
            return self._failed(slot, error)

    def step(self, slot: int, action: str) -> Row:
        """Play one action; a program that fails gives a failed row."""
        instance = self._instances.get(slot)
        if instance is None:
            return self._failed(slot, RuntimeError("step before a successful reset"))
        if self._enters_at_once:
            self._stage.universe = instance.universe
        else:
            self._stage.enter(instance.universe)
        try:
            result = instance.step(action)
            if type(result) is tuple and len(result) == 5:
                observation, reward, terminated, truncated, info = result
                if (
                    type(observation) is str
                    and type(reward) is float
                    and type(terminated) is bool
                    and type(truncated) is bool
                    and type(info) is dict
                    and not info
                    and observation.isascii()
                    and len(observation) <= self._text_chars
                    and reward - reward == 0.0
                ):
                    return observation, reward, terminated * TERMINATED + truncated * TRUNCATED, None
            return self._row(*adapt.unpack_step(result, self._note))
        except BaseException as error:
            return self._failed(slot, error)

    def _make_room(self) -> None:
        """Collect garbage, and then give up old save points, while memory is short: neither is the program's fault."""
        if self._memory.is_due():
            self._memory.collect()
        while self._save_points and self._memory.is_short():
            for number in list(self._save_points)[: (len(self._save_points) + 1) // 2]:
                del self._save_points[number]
            self._memory.collect()

    def _failed(self, slot: int, error: BaseException) -> Row:
        """The row of a failure; the instance is gone, and whatever memory it filled with it."""
        if self._interruptible and isinstance(error, KeyboardInterrupt):
            raise error
        self._instances.pop(slot, None)
        return describe(error), 0.0, FAILED | TRUNCATED, None

    def _row(self, observation: Any, reward: Any, terminated: Any, truncated: Any, info: Any) -> Row:
        text, number, ended, cut = adapt.convert(observation, reward, terminated, truncated, self._note)
        if len(text) > self._text_chars:
            raise BadResult(f"the observation has {len(text)} characters, more than the limit of {self._text_chars}")
        if info is not None and not isinstance(info, dict):
            raise BadResult(f"info must be a dict, got {type(info).__name__}: {safe_repr(info)}")
        return text, number, TERMINATED * ended + TRUNCATED * cut, encoded_info(info, self._note) if info else None

    def drop(self, slot: int) -> None:
        """Forget a slot."""
        instance = self._instances.pop(slot, None)
        close = getattr(instance.environment, "close", None) if instance is not None else None
        if callable(close):
            close()

    # ---- questions

    def solution(self, slot: int) -> str | None:
        """The program's own solution of the instance, or ``None`` where it has none."""
        instance = self._enter(slot)
        solution = getattr(instance.environment, "solution", None)
        if not callable(solution):
            return None
        value = solution()
        if isinstance(value, list | tuple):
            self._note("list_solution")
            value = "\n".join(str(item) for item in value)
        if value is not None and not isinstance(value, str):
            raise BadResult(f"solution() must return text, got {type(value).__name__}: {safe_repr(value)}")
        if value is not None and len(value) * 4 > VALUE_BYTES:
            raise BadResult(f"solution() returned {len(value)} characters, more than {VALUE_BYTES // 4}")
        return None if value is None else str.__str__(value)

    def tools(self, slot: int) -> list[Any]:
        """Tool schemas (OpenAI form) of a tool-use instance; empty for games."""
        environment = self._enter(slot).environment
        return list(to_plain(environment.tool_schemas())) if isinstance(environment, ToolUseBaseEnv) else []

    def tool_methods(self, slot: int) -> dict[str, list[dict[str, Any]]]:
        """Parameters of every ``tool_…`` method, by tool name."""
        return adapt.tool_methods(self._enter(slot).environment)

    def num_criteria(self, slot: int) -> int:
        """Number of instructions with a criterion."""
        environment = self._enter(slot).environment
        return environment.num_criteria if isinstance(environment, ToolUseBaseEnv) else 0

    def criterion(self, slot: int, index: int) -> list[Any]:
        """Evaluate a criterion on the present state: its truth and the type of its result."""
        environment = self._enter(slot).environment
        value = environment.criterion_result(index)
        return [bool(value), type(value).__name__]

    def fingerprint(self, slot: int) -> str | None:
        """A digest of the instance's state, for telling states apart; ``None`` where there can be none."""
        instance = self._enter(slot)
        if not self._is_self_contained(instance):
            return None
        return fingerprint(
            instance.environment, instance.module, instance.universe.shared(), self._stage.state(), self._around
        )

    def accesses(self) -> list[Any]:
        """Attempts of the program's own code (only under ``World(audit=True)``)."""
        return list(to_plain(self._audit.rows()))

    def _enter(self, slot: int) -> Instance:
        instance = self._instances.get(slot)
        if instance is None:
            raise RuntimeError("this instance was not reset")
        self._stage.enter(instance.universe)
        return instance

    # ---- save points

    def snapshot(self, slot: int) -> int | None:
        """Save an instance; return a number for it, or ``None`` where it cannot be copied faithfully."""
        instance = self._enter(slot)
        if not self._is_self_contained(instance):
            return None
        self._make_room()
        try:
            state = savepoint.capture(instance.environment, instance.module, instance.universe.shared(), self._around)
        except (savepoint.Uncopyable, MemoryError):
            return None
        self._num_save_points += 1
        self._save_points[self._num_save_points] = (slot, instance, state, self._stage.state())
        if len(self._save_points) > _MAX_SAVE_POINTS:
            del self._save_points[next(iter(self._save_points))]
        return self._num_save_points

    def _is_self_contained(self, instance: Instance) -> bool:
        """Whether an instance's state can be nowhere but in its module, its classes, itself and its universe."""
        if self._reaches_out is None:
            self._reaches_out = reaches_out(self._source)
        return not self._reaches_out and self._around.are_untouched(instance.universe.functions)

    def restore(self, slot: int, number: int) -> bool:
        """Go back to a save point of the same slot; false where it is gone."""
        saved = self._save_points.get(number)
        if saved is None or saved[0] != slot or not self._is_self_contained(saved[1]):
            return False
        self._make_room()
        _, instance, state, universe = saved
        try:
            environment = savepoint.reinstate(state, instance.module, instance.universe.shared(), self._around)
        except (savepoint.Uncopyable, MemoryError):
            return False
        self._stage.enter(instance.universe)
        self._stage.set_state(universe)
        instance.environment = environment
        instance.step = adapt.step_function(environment, self._note)
        self._instances[slot] = instance
        return True


def describe(error: BaseException) -> str:
    """One line: type, message and program line of an error, whatever it does when it is looked at."""
    try:
        return _describe(error)
    except BaseException:
        return "an error that cannot be shown"


def _describe(error: BaseException) -> str:
    try:
        message = str.__str__(str(error))
    except BaseException:
        message = "(its message cannot be shown)"
    line = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == PROGRAM_FILE:
            line = trace.tb_lineno
        trace = trace.tb_next
    if line is None and isinstance(error, SyntaxError) and error.filename == PROGRAM_FILE:
        line = error.lineno
    name = "program" if isinstance(error, BadResult) else type(error).__name__[:200]
    where = f" (line {line} of the program)" if line is not None else ""
    text = f"{name}: {message[:500]}{where}"
    return text.encode("utf-8", "replace").decode("utf-8")
