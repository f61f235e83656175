"""How far a rollout is, on one line: plays done, rates, time left."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

from spade_gym.rollout.rollout import Counts

_TERMINAL_SECONDS, _LOG_SECONDS = 0.2, 30.0


class ProgressLine:
    """Writes the counts of a rollout: one line that is overwritten on a terminal, else a line every half minute.

    Use it as ``progress=line``, in a ``with`` statement that ends the line.

    Args:
        stream: Where to write, usually ``sys.stderr``.
        total: How many plays there will be; ``None`` where nobody knows.
        label: What is being played.
        clock: Gives seconds.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        total: int | None = None,
        label: str = "plays",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._total = total
        self._label = label
        self._clock = clock
        self._is_terminal = stream.isatty()
        self._every = _TERMINAL_SECONDS if self._is_terminal else _LOG_SECONDS
        self._started = self._written = clock()
        self._counts = Counts()
        self._shown: Counts | None = None
        self._width = 0

    def __call__(self, counts: Counts) -> None:
        """Take in the counts; write them when the last line is old enough."""
        self._counts = counts
        if self._clock() - self._written >= self._every:
            self._write()

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *error: object) -> None:
        """Write the last counts and end the line."""
        if self._counts != self._shown and self._counts != Counts():
            self._write()
        if self._is_terminal and self._width:
            self._stream.write("\n")
            self._stream.flush()

    def _write(self) -> None:
        self._written = self._clock()
        self._shown = self._counts
        text = self.text()
        if self._is_terminal:
            self._stream.write("\r" + text.ljust(self._width))
            self._width = len(text)
        else:
            self._stream.write(text + "\n")
        self._stream.flush()

    def text(self) -> str:
        """Return the line."""
        counts, seconds = self._counts, max(self._clock() - self._started, 1e-9)
        done = f"{counts.plays:,}" if self._total is None else f"{counts.plays:,}/{self._total:,}"
        parts = [f"{self._label} {done}", f"{counts.in_flight:,} under way"]
        if counts.faulty:
            parts.append(f"{counts.faulty:,} faulty")
        parts += [f"{counts.plays / seconds:.3g} plays/s", f"{counts.tokens / seconds:,.0f} tokens/s"]
        if self._total is not None and 0 < counts.plays < self._total:
            parts.append(f"{_duration((self._total - counts.plays) * seconds / counts.plays)} left")
        else:
            parts.append(_duration(seconds))
        return ", ".join(parts)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
