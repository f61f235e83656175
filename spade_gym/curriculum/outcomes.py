"""What was played of one task, by column: the only thing that scorers see."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

_Floats = npt.NDArray[np.float64]
_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The valid plays of one task, oldest first.

    Plays that ended as ``env_error``, ``timeout`` or ``aborted`` are not here: they say nothing about the player.

    Attributes:
        returns: (n,) return of each play, in the task family's declared range.
        wins: (n,) whether the play was won.
        hinted: (n,) whether it was played with the hint (its arm).
        seeds: (n,) instance seeds.
        windows: (n,) index of the window (rollout, regeneration) in which it was played; never decreasing.
        lengths: (n,) steps.
        values: (n,) what the trainer computed of each play (``value_scorers.py``), NaN where it gave nothing.
        policy_versions: (n,) version of the player, as the trainer counts them; 0 where it does not.
    """

    returns: _Floats
    wins: _Bools
    hinted: _Bools
    seeds: _Ints
    windows: _Ints
    lengths: _Ints
    values: _Floats
    policy_versions: _Ints

    def __post_init__(self) -> None:
        """Refuse columns of different lengths."""
        same = len(self.returns) == len(self.wins) == len(self.hinted) == len(self.seeds) == len(self.windows)
        if not (same and len(self.windows) == len(self.lengths) == len(self.values) == len(self.policy_versions)):
            sizes = {item.name: len(getattr(self, item.name)) for item in fields(self)}
            raise ValueError(f"columns of outcomes must have one length, got {sizes}")

    def __len__(self) -> int:
        return len(self.returns)

    @classmethod
    def of(
        cls,
        returns: Iterable[float],
        *,
        wins: Iterable[bool] | None = None,
        hinted: Iterable[bool] | None = None,
        seeds: Iterable[int] | None = None,
        windows: Iterable[int] | None = None,
        lengths: Iterable[int] | None = None,
        values: Iterable[float] | None = None,
        policy_versions: Iterable[int] | None = None,
    ) -> Outcomes:
        """Make outcomes from lists; by default plays are won at a return of 0.999, unhinted, of window 0."""
        totals = np.asarray(list(returns), dtype=np.float64)
        n = len(totals)
        return cls(
            totals,
            np.asarray(totals >= 0.999 if wins is None else list(wins), dtype=np.bool_),
            np.asarray([False] * n if hinted is None else list(hinted), dtype=np.bool_),
            np.asarray(range(n) if seeds is None else list(seeds), dtype=np.int64),
            np.asarray([0] * n if windows is None else list(windows), dtype=np.int64),
            np.asarray([1] * n if lengths is None else list(lengths), dtype=np.int64),
            np.asarray([np.nan] * n if values is None else list(values), dtype=np.float64),
            np.asarray([0] * n if policy_versions is None else list(policy_versions), dtype=np.int64),
        )

    def select(self, mask: _Bools) -> Outcomes:
        """Return the plays where ``mask`` (n,) is true."""
        return Outcomes(*(getattr(self, item.name)[mask] for item in fields(self)))

    @property
    def plain(self) -> Outcomes:
        """The plays without the hint."""
        return self.select(~self.hinted)

    @property
    def with_hint(self) -> Outcomes:
        """The plays with the hint."""
        return self.select(self.hinted)
