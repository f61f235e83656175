"""A space of Unicode texts.

Gymnasium's ``Text`` knows a fixed character set (an unknown character raises ``KeyError`` deep inside) and goes
through shared memory that is read only once, so that ``AsyncVectorEnv`` returns blank observations. This space
holds any text, the empty one too, and refuses shared memory loudly.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from gymnasium.error import CustomSpaceError
from gymnasium.spaces import Space, Tuple
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, create_shared_memory

_SAMPLE_CHARS = 24
_SAMPLE_ALPHABET = (*" abcdefghijklmnopqrstuvwxyz0123456789.,:;|-\\{}\n", "é", "ß", "λ", "中", "🙂")


class Unicode(Space[str]):
    r"""All texts of at most ``max_length`` characters: any character but lone surrogates, newlines and all.

    Args:
        max_length: Longest text, in characters (code points).
        seed: Seeds ``sample``.
    """

    def __init__(self, max_length: int = 100_000, seed: int | np.random.Generator | None = None) -> None:
        if isinstance(max_length, bool) or not isinstance(max_length, int | np.integer) or max_length < 0:
            raise ValueError(f"max_length must be a whole number from 0 on, got {max_length!r}")
        self.max_length = int(max_length)
        super().__init__(shape=None, dtype=None, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """False: texts have no fixed size."""
        return False

    def sample(self, mask: None = None, probability: None = None) -> str:
        """Draw a short text (at most 24 characters).

        Raises:
            ValueError: A mask or probabilities were given; texts have no such thing.
        """
        if mask is not None or probability is not None:
            raise ValueError("Unicode.sample takes no mask and no probabilities")
        length = int(self.np_random.integers(0, min(self.max_length, _SAMPLE_CHARS) + 1))
        return "".join(_SAMPLE_ALPHABET[i] for i in self.np_random.integers(0, len(_SAMPLE_ALPHABET), length))

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is a text that fits."""
        if not isinstance(x, str) or len(x) > self.max_length:
            return False
        return x.isascii() or not any("\ud800" <= char <= "\udfff" for char in x)

    def to_jsonable(self, sample_n: Iterable[str]) -> list[str]:
        """Texts are JSON values."""
        return list(sample_n)

    def from_jsonable(self, sample_n: list[Any]) -> list[str]:
        """Texts are JSON values."""
        return [str(sample) for sample in sample_n]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unicode) and self.max_length == other.max_length

    def __hash__(self) -> int:
        return hash((Unicode, self.max_length))

    def __repr__(self) -> str:
        return f"Unicode({self.max_length})"


@batch_space.register(Unicode)
def _batch(space: Unicode, n: int = 1) -> Tuple[Any]:
    seeds = space.np_random.integers(0, np.iinfo(np.int32).max, n)
    return Tuple([Unicode(space.max_length, seed=int(seed)) for seed in seeds])


@concatenate.register(Unicode)
def _concatenate(space: Unicode, items: Any, out: Any) -> tuple[str, ...]:
    return tuple(items)


@create_empty_array.register(Unicode)
def _empty(space: Unicode, n: int = 1, fn: Any = None) -> tuple[str, ...]:
    return ("",) * n


@create_shared_memory.register(Unicode)
def _shared(space: Unicode, n: int = 1, ctx: Any = None) -> Any:
    raise CustomSpaceError(
        "texts do not fit into shared memory: use AsyncVectorEnv(..., shared_memory=False), or better "
        "gymnasium.make_vec, whose batched environment needs neither"
    )
