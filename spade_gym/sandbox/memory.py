"""When to collect garbage inside a worker: honest programs must not die of what earlier episodes left behind.

Python collects by the number of objects, not by their size; a few hundred instances of some megabytes, each in a
reference cycle, would exceed the limit of the worker's address space first.
"""

from __future__ import annotations

import gc
import mmap
import sys

if sys.platform != "win32":
    import resource

_COLLECT_EVERY = 64
_SHORT = 3  # memory is short when less than this fraction of the limit is left


class Memory:
    """The address space of this process.

    A limit, where there is one, is found by asking: whether a third of it can still be mapped (2 µs; no page is
    touched, and ``/proc`` cannot be read in the jail).
    """

    def __init__(self) -> None:
        self._resets = 0
        self._probe: int | None = None

    def is_due(self) -> bool:
        """Whether to collect before a reset: every now and then, and whenever memory is short."""
        self._resets += 1
        return self._resets % _COLLECT_EVERY == 0 or self.is_short()

    def is_short(self) -> bool:
        """Whether little of the limit is left."""
        if sys.platform == "win32":
            return False
        if self._probe is None:
            limit = resource.getrlimit(resource.RLIMIT_AS)[0]
            self._probe = 0 if limit == resource.RLIM_INFINITY else limit // _SHORT
        if not self._probe:
            return False
        try:
            mmap.mmap(-1, self._probe, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ).close()
        except (OSError, ValueError, OverflowError, MemoryError):
            return True
        return False

    def collect(self) -> None:
        """Free what nobody can reach."""
        gc.collect()
