"""The sandbox's vocabulary: how strongly a program is isolated, and what it may use.

What the levels mean (``spade-gym doctor`` shows what is enforced here, found by probing a real worker):

====  =====================================================================  =================================
L3    bubblewrap namespaces (no file system but the standard library,        Linux with user namespaces
      no network, no foreign processes) around everything of L2
L2    no new privileges, no capabilities, Landlock, a seccomp allowlist,     Linux >= 5.13, no privilege needed
      resource limits
L1    a process of its own: resource limits, empty environment, closed       any POSIX system; only by name
      descriptors, killed at its deadline. **It can read your files and use
      the network.**
L0    inside this process. **No protection at all**; for code you wrote.     everywhere; only by name
====  =====================================================================  =================================

What no level covers: a program decides its own rewards (that is what it is for), so a program can always
lie about itself; side channels of the processor; bugs of the kernel.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass


class Isolation(enum.IntEnum):
    """How strongly a program is separated from this process, weakest first."""

    L0 = 0
    L1 = 1
    L2 = 2
    L3 = 3

    @classmethod
    def parse(cls, value: Isolation | int | str | None) -> Isolation | None:
        """Read ``"L2"``, ``2`` or an ``Isolation``; ``None`` stands for the secure default (L3, else L2).

        Raises:
            ValueError: The value names no level.
        """
        if value is None or isinstance(value, cls):
            return value
        try:
            if isinstance(value, bool):
                raise ValueError
            return cls[value.upper()] if isinstance(value, str) else cls(value)
        except (KeyError, ValueError):
            raise ValueError(f"isolation must be one of L0, L1, L2, L3 or absent, got {value!r}") from None


_WHOLE = ("cpu_seconds", "memory_bytes", "text_chars", "action_chars", "turns")
#: Largest values: what the kernel and the frames can hold, and a week for every wait.
_MOST = {
    "step_seconds": 7 * 86_400, "load_seconds": 7 * 86_400, "cpu_seconds": 10**9, "memory_bytes": 1 << 48,
    "text_chars": 100_000_000, "action_chars": 100_000_000, "turns": 1 << 53, "abs_reward": 1e100,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a program may use before it is stopped.

    Attributes:
        step_seconds: Wall-clock time of one ``step``.
        load_seconds: Wall-clock time of loading a program, and of one ``reset`` (which runs the module anew).
        cpu_seconds: Processor time of one worker; a worker that used it up is replaced and its plays replayed,
            so an honest program never notices.
        memory_bytes: Address space of one worker, the interpreter included.
        text_chars: Length of one observation. A longer one is the program's fault.
        action_chars: Length of one action. A longer one is refused with ``ValueError``.
        turns: Steps of one episode, whatever the program says; truncation on reaching it.
        abs_reward: Largest absolute reward of one step. A larger one is the program's fault.
    """

    step_seconds: float = 5.0
    load_seconds: float = 10.0
    cpu_seconds: int = 600
    memory_bytes: int = 1 << 30
    text_chars: int = 100_000
    action_chars: int = 100_000
    turns: int = 1_000
    abs_reward: float = 10.0

    def __post_init__(self) -> None:
        """Refuse limits that would disable a limit.

        Raises:
            ValueError: A limit is no number, not positive, too large or too small; the message names it.
        """
        for key in self.__slots__:
            value = getattr(self, key)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise ValueError(f"limit {key} must be a positive finite number, got {value!r:.50}")
            if key in _WHOLE and not isinstance(value, int):
                raise ValueError(f"limit {key} must be a whole number, got {value!r}")
            if value > _MOST[key]:
                raise ValueError(f"limit {key} must be at most {_MOST[key]:,}, got {value!r:.50}")
        if self.memory_bytes < 128 << 20:
            raise ValueError(
                f"limit memory_bytes must be at least 128 MiB (the interpreter's), got {self.memory_bytes}"
            )


_LATEST = 200_000_000_000  # the year 8307; calendars of Python end with 9999


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Every source of chance and time that a program can reach, fixed.

    In play the default holds for everybody, so a program behaves the same tomorrow. The determinism check
    plays a program in two different worlds and rejects any difference.

    Attributes:
        hash_seed: ``PYTHONHASHSEED`` of the worker; decides the order of sets of texts.
        clock: What ``time.time()`` starts from at a reset, in seconds; it advances by 1 ms a reading.
        entropy: Seeds ``os.urandom``, ``secrets``, ``uuid4``, unseeded ``Random()`` and NumPy generators.
        random_state: Mixed into the initial state of the global ``random`` (and NumPy) generators.
        audit: Record every attempt of the program's own code at a file, the network, a process or the environment.
        one_namespace: Run the module once for all instances, and let a second reset reuse its instance. Only for
            the check of shared state: in play every reset has a namespace of its own.
    """

    hash_seed: int = 0
    clock: float = 1_700_000_000.0
    entropy: int = 0
    random_state: int = 0
    audit: bool = False
    one_namespace: bool = False

    def __post_init__(self) -> None:
        """Refuse what no worker can be given.

        Raises:
            ValueError: A field is of the wrong type or out of its range; the message names it.
        """
        for key, least, most in (("hash_seed", 0, 2**32 - 1), ("entropy", -(2**63), 2**64 - 1),
                                 ("random_state", -(2**63), 2**64 - 1)):  # fmt: skip
            value = getattr(self, key)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise ValueError(f"world {key} must be a whole number from {least} to {most}, got {value!r:.50}")
        clock: object = self.clock
        if isinstance(clock, bool) or not isinstance(clock, int | float) or not 0 <= clock <= _LATEST:
            raise ValueError(f"world clock must be a number of seconds from 0 to {_LATEST:,}, got {clock!r:.50}")
        for key in ("audit", "one_namespace"):
            if not isinstance(getattr(self, key), bool):
                raise ValueError(f"world {key} must be True or False, got {getattr(self, key)!r:.50}")
