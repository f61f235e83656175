"""One side of a comparison, alone in its process: answers ``update`` and ``generate`` with seconds and tokens.

Commands come as lines of standard input, answers go as lines of JSON to what was standard output; what libraries print
goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from spade_trainers.bench.peak import give_back, resident_mib
from spade_trainers.bench.workload import Workload


class Work(NamedTuple):
    """What a call did.

    Attributes:
        wall: Seconds.
        processor: Seconds of processor time, of this process.
        tokens: Sampled, of ``generate``; else 0.
        gradient_norm: Of ``update``, before clipping; ``None`` where it is told later.
    """

    wall: float
    processor: float
    tokens: int = 0
    gradient_norm: float | None = None


class Side(Protocol):
    """A trainer under measurement."""

    def update(self) -> Work:
        """Make one update of the workload's group."""

    def generate(self) -> Work:
        """Sample completions of the workload's prompt."""


def finish(device: str) -> None:
    """Wait until a device has done what it was asked for."""
    if device == "cuda":
        import torch

        torch.cuda.synchronize()


def timed(do: Callable[[], Any], device: str = "cpu") -> tuple[Any, Work]:
    """Call something; return its result and how long it took."""
    begun, started = time.perf_counter(), time.process_time()
    found = do()
    finish(device)
    return found, Work(time.perf_counter() - begun, time.process_time() - started)


class Line:
    """The connection with the process that compares.

    Args:
        device: Whose memory is told.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self._answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
        os.dup2(2, 1)

    def tell(self, **values: Any) -> None:
        """Answer."""
        print(json.dumps(values), file=self._answers)

    def command(self) -> str:
        """Wait for a command; ``quit`` when nobody is left."""
        return sys.stdin.readline().strip() or "quit"

    def serve(self, side: Side, command: str) -> None:
        """Do what was asked."""
        if command == "memory":
            peak = resident_mib(self._device, peak=True)
            give_back()
            self.tell(peak_mib=peak, resident_mib=resident_mib(self._device))
        elif command in ("update", "generate"):
            work = getattr(side, command)()
            give_back()  # the others need room
            self.tell(**work._asdict())
        else:
            self.tell(error=f"there is no command {command!r}")


def main(kind: str, told: str) -> None:
    """Run one side until it is told to quit.

    Args:
        kind: ``ours`` or ``trl``.
        told: The workload as JSON.
    """
    workload = Workload(**json.loads(told))
    line = Line(workload.device)
    import torch

    torch.set_num_threads(workload.threads)
    if kind == "ours":
        from spade_trainers.bench.side_ours import Ours

        ours = Ours(workload)
        line.tell(ready=ours.setting)
        while (command := line.command()) != "quit":
            line.serve(ours, command)
    else:
        from spade_trainers.bench.side_trl import Trl

        Trl(workload, line).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
