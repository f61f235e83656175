"""Waiting a moment without sleeping.

A process that sleeps until its peer writes pays for being woken: 20 to 70 µs where the peer runs on another core, and
more on an idle virtual machine, which is more than most steps take. So both ends look for data for about that long
before they sleep. Between looks they yield, so that two processes that share a core hand it to each other. Whoever
knows how long the last answer took sleeps through most of that time, and looks towards its end.
"""

from __future__ import annotations

import os
import select

#: Looks before sleeping; about 0.6 µs each.
NUM_LOOKS = 400
#: Waits beyond this many seconds are not looked through: being woken costs little beside them.
LONGEST = 0.02
_LOOKS_A_SECOND = 1_800_000
_NAP_SHARE = 0.85

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

    def wait(self, expected: float = 0.0) -> None:
        """Return when there is something to read, or after about a quarter of a millisecond more than expected.

        Args:
            expected: Seconds that it will take, as far as the past tells.
        """
        look, num_looks = self._poll, NUM_LOOKS
        if 0.0002 < expected <= LONGEST:
            nap = int(expected * _NAP_SHARE * 1000)
            if nap and look(nap):
                return
            num_looks += int((expected - nap / 1000) * _LOOKS_A_SECOND)
        for _ in range(num_looks):
            if look(0):
                return
            _yield()
