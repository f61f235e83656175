"""How a run that may last tells a person at the terminal how it goes."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import TextIO, cast

from spade_gym.cli.terminal import visible
from spade_gym.rollout.progress_line import ProgressLine
from spade_gym.rollout.rollout import Counts


class _Lasting:
    """Standard error for a run that lasts longer than its reader: when that is gone, nothing is written any more."""

    def __init__(self) -> None:
        self._gone = False

    def write(self, text: str) -> int:
        self._safely(lambda: sys.stderr.write(text))
        return len(text)

    def flush(self) -> None:
        self._safely(sys.stderr.flush)

    def isatty(self) -> bool:
        return not self._gone and sys.stderr.isatty()

    def _safely(self, do: Callable[[], object]) -> None:
        if self._gone:
            return
        try:
            do()
        except BrokenPipeError:
            self._gone = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


class TerminalReport:
    """Tells a person at the terminal, on standard error, how a run goes; a ``Report``."""

    def __init__(self) -> None:
        self._stream = _Lasting()

    def say(self, text: str) -> None:
        """Write a line."""
        self._stream.write(visible(text) + "\n")
        self._stream.flush()

    @contextlib.contextmanager
    def progress(self, label: str, total: int) -> Iterator[Callable[[Counts], None]]:
        """Show a line of progress."""
        with ProgressLine(cast(TextIO, self._stream), total=total, label=label) as line:
            yield line
