"""``torchrun --nproc-per-node N -m spade_trainers.grpo selfplay …``: a run of ``spade-gym`` with N processes to train.

Process 0 runs the command; the others take their share of its updates. See docs/scale.md.
"""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

from spade_gym.cli.main import main as run_command
from spade_gym.errors import SpadeError

if TYPE_CHECKING:
    from spade_trainers.grpo.processes import Processes


def main(arguments: list[str]) -> int:
    """Run the command in process 0 and follow in the others; return the exit status."""
    try:
        from spade_trainers.grpo.processes import join, num_processes, rank
    except ImportError as error:
        print(f"error: this needs torch ({error}): pip install 'spade-gym[grpo]'", file=sys.stderr)
        return 2
    if num_processes() == 1:
        return run_command(arguments)
    try:
        processes = join()
        return _lead(arguments, processes) if rank() == 0 else _follow(processes)
    except SpadeError as error:
        print(f"error: rank {rank()}: {error}", file=sys.stderr)
        return 2


def _lead(arguments: list[str], processes: Processes) -> int:
    from spade_trainers.grpo.orders import Stop, packed

    status = run_command(arguments)
    if status == 0:  # otherwise the others see that this process ends
        processes.tell(packed(Stop()))
        processes.leave()
    return status


def _follow(processes: Processes) -> int:
    from spade_trainers.grpo.lead import follow
    from spade_trainers.grpo.processes import LeaderGone

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for process 0, which ends first
    try:
        follow(processes)
        processes.leave()
    except LeaderGone as error:
        print(f"rank {processes.rank}: {error}", file=sys.stderr)
    except ValueError as error:  # as process 0 says it
        print(f"error: rank {processes.rank}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
