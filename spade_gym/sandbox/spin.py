"""Waiting a moment without sleeping.

A process that sleeps until its peer writes pays for being woken: 20 to 70 µs where the peer runs on another core,
and more on an idle virtual machine, which is more than most steps take. So both ends look for data for about that
long before they sleep. Between looks they yield, so that two processes that share a core hand it to each other. Who
knows how long the last answer took sleeps through most of that time, and looks towards its end.

The bound is one of time, not of looks: on a crowded machine a yield may last for milliseconds, and there it is
better to sleep at once, because a process that wakes is preferred to one that yields.
"""

from __future__ import annotations

import os
import select
import time

#: Seconds of looking before sleeping; a look takes about 0.7 µs.
LOOK_SECONDS = 0.00025
#: Waits beyond this many seconds are not looked through: being woken costs little beside them.
LONGEST = 0.02
_NAP_SHARE = 0.85

_yield, _clock = os.sched_yield, time.perf_counter


class Spin:
    """Looks whether a descriptor can be read.

    Args:
        descriptor: What to look at.
    """

    def __init__(self, descriptor: int) -> None:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        self._poll = poll.poll

    def wait(self, expected: float = 0.0) -> None:
        """Return when there is something to read, or after about a quarter of a millisecond more than expected.

        Args:
            expected: Seconds that it will take, as far as the past tells.
        """
        look = self._poll
        deadline = _clock() + LOOK_SECONDS
        if LOOK_SECONDS < expected <= LONGEST:
            deadline += expected
            nap = int(expected * _NAP_SHARE * 1000)
            if nap and look(nap):
                return
        while not look(0):
            if _clock() > deadline:
                return
            _yield()
