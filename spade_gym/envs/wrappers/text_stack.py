"""Memory for vector observations: the last few texts, and the first one, of an episode."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Encode = Callable[[str], npt.NDArray[np.float32]]


class TextStack:
    """Turns the texts of one episode into vectors that remember earlier ones.

    A vector holds the last ``history`` texts, oldest first (zeros before the episode began), and with
    ``keep_first`` then the episode's first text: many programs state their task only there.

    Args:
        encode: Turns a text into a float32 vector of shape (num_features,).
        num_features: Length of these vectors.
        history: How many of the last texts, at least 1.
        keep_first: Whether the first text is added.

    Raises:
        ValueError: ``history`` is no positive whole number.
    """

    def __init__(self, encode: Encode, num_features: int, *, history: int = 1, keep_first: bool = False) -> None:
        if isinstance(history, bool) or not isinstance(history, int) or history < 1:
            raise ValueError(f"history must be a positive whole number, got {history!r}")
        self.encode = encode
        self.num_features = num_features
        self.history = history
        self.keep_first = keep_first
        self._recent: deque[npt.NDArray[np.float32]] = deque(maxlen=history)
        self._first: npt.NDArray[np.float32] | None = None

    @property
    def length(self) -> int:
        """Length of the vectors."""
        return self.num_features * (self.history + self.keep_first)

    def reset(self, text: str) -> npt.NDArray[np.float32]:
        """Begin an episode with its first text; return a fresh vector of shape (length,)."""
        self._recent.extend([np.zeros(self.num_features, dtype=np.float32)] * self.history)
        self._first = self.encode(text)
        return self._push(self._first)

    def step(self, text: str) -> npt.NDArray[np.float32]:
        """Add the next text of the episode; return a fresh vector of shape (length,)."""
        return self._push(self.encode(text))

    def _push(self, vector: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        if self.history == 1 and not self.keep_first:
            return vector.copy()
        self._recent.append(vector)
        parts: list[Any] = list(self._recent)
        if self.keep_first:
            parts.append(self._first)
        return np.concatenate(parts)
