"""Chance and time as a program sees them: fixed by the seed, separate for every instance.

A *universe* belongs to one instance of a program. While it is active, the functions of ``random`` are the
methods of the universe's own generator, clocks are virtual, and every source of entropy draws from the
universe's seeded stream. ``Patches`` puts these replacements into the standard library (for good in a worker,
which runs nothing else; for the duration of a call when a program runs inside the trainer's process, L0).
"""

from __future__ import annotations

import datetime
import os
import random
import sys
import time
import uuid
from collections.abc import Callable
from datetime import date as _Date
from datetime import datetime as _Datetime
from random import Random as _Random
from typing import Any, SupportsIndex

from spade_gym.sandbox.base import World

_NAMES = (
    "seed", "random", "uniform", "triangular", "randint", "choice", "randrange", "sample", "shuffle", "choices",
    "normalvariate", "lognormvariate", "expovariate", "vonmisesvariate", "gammavariate", "gauss", "betavariate",
    "binomialvariate", "paretovariate", "weibullvariate", "getstate", "setstate", "getrandbits", "randbytes",
)  # fmt: skip
_RANDOM_FUNCTIONS = tuple(name for name in _NAMES if hasattr(random, name))
_TICK = 0.001
_PROCESS_ID = 4242
_NODE = 0x0242AC110002
_RESIDENT_KB = 65_536


class _Generator(_Random):
    """The global generator; seeded without a seed, it draws one from the universe's entropy instead of the kernel's."""

    entropy: _Random | None = None

    def seed(self, a: Any = None, version: int = 2) -> None:
        """Seed."""
        super().seed(self.entropy.getrandbits(64) if a is None and self.entropy is not None else a, version)


class Universe:
    """The chance and time of one instance, from its reset on.

    Attributes:
        generator: What the functions of the module ``random`` draw from.
        functions: These functions, as entries for the module's dictionary.
        entropy: What ``os.urandom`` and its like draw from.
        now: Seconds since the epoch on the virtual clock; each reading advances it by 1 ms.
        numpy_state: State of NumPy's global generator while another universe is active; ``None`` until then.
        sympy_state: The same of SymPy's.
    """

    __slots__ = ("entropy", "functions", "generator", "now", "numpy_state", "start", "sympy_state")

    def __init__(self, seed: int, world: World) -> None:
        self.generator = _Generator(seed if world.random_state == 0 else f"{seed}/{world.random_state}")
        self.functions = {name: getattr(self.generator, name) for name in _RANDOM_FUNCTIONS}
        self.functions["_inst"] = self.generator
        self.entropy = self.generator.entropy = _Random(f"entropy/{seed}/{world.entropy}")
        self.now = self.start = world.clock
        self.numpy_state: Any = None
        self.sympy_state: Any = None

    def tick(self) -> float:
        """Read the virtual clock."""
        self.now += _TICK
        return self.now

    def state(self) -> tuple[Any, ...]:
        """What a save point must hold of this universe, NumPy's global state aside (see ``Stage.state``)."""
        return self.generator.getstate(), self.entropy.getstate(), self.now

    def set_state(self, state: tuple[Any, ...]) -> None:
        """Go back to a save point."""
        self.generator.setstate(state[0])
        self.entropy.setstate(state[1])
        self.now = state[2]

    def shared(self) -> dict[int, Any]:
        """What a deep copy of a program's state must not copy, by address (the form of ``deepcopy``'s memo)."""
        return {id(thing): thing for thing in (self, self.generator, self.entropy)}


class Stage:
    """Holds the active universe; one per worker.

    Attributes:
        universe: The active universe.
        switches_random: Whether the functions of ``random`` change with it; programs that never draw from the
            global generator (``programs/chance.py``) are spared the cost.
    """

    def __init__(self) -> None:
        self.universe = Universe(0, World())
        self.switches_random = True
        self._numpy: Any = None
        self._sympy: Any = None
        self._random = random.__dict__

    def use_numpy_globals(self) -> None:
        """Also give every universe its own state of NumPy's global generator (costs about 15 µs a switch)."""
        self._numpy = sys.modules["numpy"].random

    def use_sympy_globals(self) -> None:
        """Also give every universe its own state of SymPy's generator."""
        self._sympy = sys.modules["sympy.core.random"].rng

    def enter(self, universe: Universe) -> None:
        """Make a universe the active one."""
        if universe is self.universe:
            return
        if self._numpy is not None:
            self.universe.numpy_state = self._numpy.get_state()
            if universe.numpy_state is None:
                self._numpy.seed(universe.generator.getrandbits(32))
                universe.generator.seed(universe.generator.getrandbits(64))
            else:
                self._numpy.set_state(universe.numpy_state)
        if self._sympy is not None:
            self.universe.sympy_state = self._sympy.getstate()
            if universe.sympy_state is None:
                self._sympy.seed(universe.entropy.getrandbits(64))
            else:
                self._sympy.setstate(universe.sympy_state)
        self.universe = universe
        if self.switches_random:
            self._random.update(universe.functions)

    @property
    def is_only_pointed_at(self) -> bool:
        """Whether entering a universe sets :attr:`universe` and nothing else."""
        return not self.switches_random and self._numpy is None and self._sympy is None

    def state(self) -> tuple[Any, ...]:
        """What a save point must hold of the active universe."""
        return (
            *self.universe.state(),
            self._numpy.get_state() if self._numpy is not None else None,
            self._sympy.getstate() if self._sympy is not None else None,
        )

    def set_state(self, state: tuple[Any, ...]) -> None:
        """Take the active universe back to a save point."""
        self.universe.set_state(state)
        if self._numpy is not None and state[3] is not None:
            self._numpy.set_state(state[3])
        if self._sympy is not None and state[4] is not None:
            self._sympy.setstate(state[4])


class SeededRandom(_Random):
    """``random.Random``, whose unseeded state comes from the active universe instead of the kernel."""

    stage: Stage

    def __new__(cls, *args: Any, **kwargs: Any) -> SeededRandom:
        """Allocate without asking the kernel for entropy."""
        return _Random.__new__(cls, 0)  # type: ignore[call-arg]

    def seed(self, a: Any = None, version: int = 2) -> None:
        """Seed; without an argument, from the active universe."""
        _Random.seed(self, self.stage.universe.entropy.getrandbits(64) if a is None else a, version)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy without drawing a seed that the state would overwrite: a copy must not change what comes next."""
        return self.__class__, (0,), self.getstate()


class EntropyRandom(SeededRandom):
    """``random.SystemRandom``, drawing from the active universe's stream of entropy."""

    def random(self) -> float:
        """Return a number in [0, 1)."""
        return self.stage.universe.entropy.random()

    def getrandbits(self, k: int) -> int:
        """Return a whole number of ``k`` random bits."""
        return self.stage.universe.entropy.getrandbits(k)

    def randbytes(self, n: int) -> bytes:
        """Return ``n`` random bytes."""
        return self.stage.universe.entropy.randbytes(n)

    def seed(self, *args: Any, **kwargs: Any) -> None:
        """Nothing to seed."""

    def getstate(self, *args: Any, **kwargs: Any) -> Any:
        """A source of entropy has no state."""
        raise NotImplementedError("System entropy source does not have state.")

    def setstate(self, *args: Any, **kwargs: Any) -> Any:
        """A source of entropy has no state."""
        raise NotImplementedError("System entropy source does not have state.")

    def __reduce__(self) -> tuple[Any, ...]:
        """Any copy draws from the same stream."""
        return self.__class__, ()


class _CalendarType(type):
    """Lets ``isinstance(x, datetime.datetime)`` hold for values made before the replacement."""

    def __instancecheck__(cls, value: object) -> bool:
        return type.__instancecheck__(cls, value) or isinstance(value, cls.__dict__.get("real", ()))

    def __subclasscheck__(cls, kind: type) -> bool:
        return type.__subclasscheck__(cls, kind) or issubclass(kind, cls.__dict__.get("real", ()))


class Patches:
    """The replacements of ``random``, ``time``, ``datetime``, ``os``, ``uuid`` (and NumPy's) sources of chance.

    Args:
        stage: Where the replacements find the active universe.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        seeded: Any = type("Random", (SeededRandom,), {"stage": stage, "__module__": "random"})
        system: Any = type("SystemRandom", (EntropyRandom,), {"stage": stage, "__module__": "random"})
        self._new: list[tuple[Any, str, Any]] = [
            (random, "Random", seeded),
            (random, "SystemRandom", system),
            *((time, name, function) for name, function in _clocks(stage).items() if hasattr(time, name)),
            *((datetime, name, kind) for name, kind in _calendar(stage).items()),
            *_entropy(stage),
            *_low_level(stage, seeded),
        ]
        if "secrets" in sys.modules:
            secrets = sys.modules["secrets"]
            self._new += [
                (secrets, "SystemRandom", system),
                (secrets, "randbits", lambda k: stage.universe.entropy.getrandbits(k)),
                (secrets, "choice", lambda sequence: stage.universe.entropy.choice(sequence)),
                (secrets, "randbelow", lambda limit: stage.universe.entropy.randrange(limit)),
                (secrets, "token_bytes", lambda n=32: stage.universe.entropy.randbytes(32 if n is None else n)),
            ]
        if "numpy.random.bit_generator" in sys.modules:
            bits = sys.modules["numpy.random.bit_generator"]
            self._new.append((bits, "randbits", lambda k: stage.universe.entropy.getrandbits(k)))
        self._old = [(module, name, getattr(module, name)) for module, name, _ in self._new]
        self._old += [(random, name, getattr(random, name)) for name in (*_RANDOM_FUNCTIONS, "_inst")]

    def install(self) -> None:
        """Put the replacements in, and the functions of the active universe."""
        for module, name, value in self._new:
            setattr(module, name, value)
        random.__dict__.update(self._stage.universe.functions)

    def remove(self) -> None:
        """Put the originals back."""
        for module, name, value in self._old:
            setattr(module, name, value)


def _clocks(stage: Stage) -> dict[str, Callable[..., Any]]:
    gmtime, strftime, asctime = time.gmtime, time.strftime, time.asctime

    def now() -> float:
        return stage.universe.tick()

    def elapsed() -> float:
        return stage.universe.tick() - stage.universe.start

    def sleep(seconds: float) -> None:
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        stage.universe.now += seconds

    def calendar_time(seconds: float | None = None) -> time.struct_time:
        return gmtime(stage.universe.tick() if seconds is None else seconds)

    def clock(which: int) -> float:
        return now() if which == time.CLOCK_REALTIME else elapsed()

    return {
        "time": now,
        "time_ns": lambda: round(now() * 1e9),
        "monotonic": elapsed,
        "monotonic_ns": lambda: round(elapsed() * 1e9),
        "perf_counter": elapsed,
        "perf_counter_ns": lambda: round(elapsed() * 1e9),
        "process_time": elapsed,
        "process_time_ns": lambda: round(elapsed() * 1e9),
        "thread_time": elapsed,
        "thread_time_ns": lambda: round(elapsed() * 1e9),
        "clock_gettime": clock,
        "clock_gettime_ns": lambda which: round(clock(which) * 1e9),
        "sleep": sleep,
        "gmtime": calendar_time,
        "localtime": calendar_time,
        "ctime": lambda seconds=None: asctime(calendar_time(seconds)),
        "asctime": lambda value=None: asctime(calendar_time() if value is None else value),
        "strftime": lambda form, value=None: strftime(form, calendar_time() if value is None else value),
    }


def _calendar(stage: Stage) -> dict[str, type]:
    class VirtualDate(_Date, metaclass=_CalendarType):
        real = _Date

        @classmethod
        def today(cls) -> Any:
            return cls.fromtimestamp(stage.universe.tick())

    class VirtualDatetime(_Datetime, metaclass=_CalendarType):
        real = _Datetime

        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            moment = _Datetime.fromtimestamp(stage.universe.tick(), datetime.UTC)
            value = cls(*moment.timetuple()[:6], moment.microsecond, datetime.UTC)
            return value.replace(tzinfo=None) if tz is None else value.astimezone(tz)

        @classmethod
        def utcnow(cls) -> Any:
            return cls.now()

        @classmethod
        def today(cls) -> Any:
            return cls.now()

    for kind, name in ((VirtualDate, "date"), (VirtualDatetime, "datetime")):
        kind.__name__ = kind.__qualname__ = name
        kind.__module__ = "datetime"
    return {"date": VirtualDate, "datetime": VirtualDatetime}


def _low_level(stage: Stage, seeded: type) -> list[tuple[Any, str, Any]]:
    """The same sources under the names by which the C modules have them, and what is measured of the process."""
    calendar = _calendar(stage)
    wanted: list[tuple[str, str, Any]] = [
        ("posix", "urandom", lambda size: stage.universe.entropy.randbytes(size)),
        ("posix", "getrandom", lambda size, flags=0: stage.universe.entropy.randbytes(size)),
        ("posix", "times", lambda: _times(stage)),
        ("os", "times", lambda: _times(stage)),
        ("_random", "Random", seeded),
        ("_datetime", "date", calendar["date"]),
        ("_datetime", "datetime", calendar["datetime"]),
        ("_uuid", "generate_time_safe", lambda: (stage.universe.entropy.randbytes(16), None)),
        ("uuid", "_generate_time_safe", lambda: (stage.universe.entropy.randbytes(16), None)),
        ("uuid", "getnode", lambda: _NODE),
        ("tempfile", "_get_candidate_names", lambda: _TemporaryNames(stage)),
        ("tempfile", "_Random", seeded),
        ("ssl", "RAND_bytes", lambda size: stage.universe.entropy.randbytes(size)),
        ("_ssl", "RAND_bytes", lambda size: stage.universe.entropy.randbytes(size)),
        ("resource", "getrusage", lambda who: _usage(stage)),
    ]
    found = [(sys.modules.get(module), name, value) for module, name, value in wanted]
    return [(module, name, value) for module, name, value in found if module is not None and hasattr(module, name)]


class _TemporaryNames:
    """Names of temporary files, as ``tempfile`` makes them."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def __iter__(self) -> _TemporaryNames:
        return self

    def __next__(self) -> str:
        return "".join(self._stage.universe.entropy.choices("abcdefghijklmnopqrstuvwxyz0123456789_", k=8))


def _times(stage: Stage) -> os.times_result:
    seconds = stage.universe.tick() - stage.universe.start
    return os.times_result((seconds, 0.0, 0.0, 0.0, seconds))


def _usage(stage: Stage) -> Any:
    kind: Any = sys.modules["resource"].struct_rusage
    return kind((stage.universe.tick() - stage.universe.start, 0.0, _RESIDENT_KB, *[0] * 13))


def _entropy(stage: Stage) -> list[tuple[Any, str, Any]]:
    def random_bytes(size: SupportsIndex, flags: int = 0) -> bytes:
        return stage.universe.entropy.randbytes(size.__index__())

    def random_uuid() -> uuid.UUID:
        return uuid.UUID(int=stage.universe.entropy.getrandbits(128), version=4)

    replacements: list[tuple[Any, str, Any]] = [
        (os, "urandom", random_bytes),
        (os, "getpid", lambda: _PROCESS_ID),
        (uuid, "uuid4", random_uuid),
        (uuid, "uuid1", lambda node=None, clock_seq=None: random_uuid()),
    ]
    if hasattr(os, "getrandom"):
        replacements.append((os, "getrandom", random_bytes))
    if hasattr(random, "_urandom"):
        replacements.append((random, "_urandom", random_bytes))
    return replacements
