"""Waiting a moment without sleeping.

A process that sleeps until its peer writes pays for being woken: 20 to 70 µs where the peer runs on another core, and
more on an idle virtual machine, which is more than most steps take. So both ends look for data for about that long
before they sleep. Between looks they yield, so that two processes that share a core hand it to each other.
"""

from __future__ import annotations

import os
import select

#: Looks before sleeping; about 1 µs each.
NUM_LOOKS = 400

_yield = os.sched_yield


class Spin:
    """Looks whether a descriptor can be read.

    Args:
        descriptor: What to look at.
    """

    def __init__(self, descriptor: int) -> None:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        self._poll = poll.poll

    def wait(self) -> None:
        """Return when there is something to read, or after about ``NUM_LOOKS`` µs."""
        look = self._poll
        for _ in range(NUM_LOOKS):
            if look(0):
                return
            _yield()
