"""Ctrl-C while the command ``spade-gym`` is still being imported: it ends quietly with the status 130.

Importing the package takes some tenths of a second. An interrupt in that time would print a traceback, or reach a
library that makes another error of it, and end with a status that means something else. ``spade_gym`` imports this
module first; it does nothing unless this process is the command. ``spade_gym.cli.main`` takes over from here.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType

INTERRUPTED = 130
_COMMAND = "spade-gym"
_MODULE = "spade_gym.cli.main"


def exit_at_once(number: int, frame: FrameType | None) -> None:
    """Handle SIGINT: nothing was begun, so nothing needs to be ended."""
    os._exit(INTERRUPTED)


def is_command() -> bool:
    """Tell whether this process was started as ``spade-gym`` or ``python -m spade_gym.cli.main``."""
    name = os.path.basename(sys.argv[0]) if getattr(sys, "argv", None) else ""
    return name.removesuffix(".exe") == _COMMAND or (name == "-m" and _MODULE in sys.orig_argv)


if (
    is_command()
    and threading.current_thread() is threading.main_thread()
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
    signal.signal(signal.SIGINT, exit_at_once)
