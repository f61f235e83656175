"""Which tasks may enter the memory."""

from __future__ import annotations

import hashlib
import io
import tokenize
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from spade_gym.curriculum.finite import within
from spade_gym.curriculum.memory import Memory
from spade_gym.curriculum.task import Task


class Gate(Protocol):
    """Judges a task before it enters the memory."""

    def refuse(self, task: Task, memory: Memory) -> str | None:
        """Return why the task must not enter, or ``None``."""


@dataclass(frozen=True, slots=True)
class NotIn:
    """Keeps given tasks out: those held back for evaluation.

    Attributes:
        task_ids: Ids of the tasks.
    """

    task_ids: frozenset[str]

    def refuse(self, task: Task, memory: Memory) -> str | None:
        """Refuse the given tasks."""
        return "held back for evaluation" if task.id in self.task_ids else None


@dataclass(slots=True)
class NearDuplicates:
    """Sends programs that resemble one in the memory to review; nothing is dropped silently.

    Resemblance is the estimated Jaccard similarity of 5-grams of normalised tokens (names kept, numbers and texts
    not), by MinHash with 128 permutations: standard error at most 0.045.

    Attributes:
        sources: Program text by task id; tasks without one pass.
        threshold: Resemblance from which a task is sent to review.
        review: What was refused: (task, id of the one it resembles, resemblance).
    """

    sources: Mapping[str, str]
    threshold: float = 0.8
    review: list[tuple[Task, str, float]] = field(default_factory=list)
    _signatures: dict[str, npt.NDArray[np.uint64]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the range."""
        within("threshold", self.threshold, 0, 1)

    def refuse(self, task: Task, memory: Memory) -> str | None:
        """Refuse and keep for review what resembles a record."""
        signature = self._signature(task.id)
        if signature is None:
            return None
        for record in memory:
            other = self._signature(record.task.id)
            if other is not None and (alike := float(np.mean(signature == other))) >= self.threshold:
                self.review.append((task, record.task.id, alike))
                return f"resembles {record.task.id} ({alike:.2f})"
        return None

    def state_dict(self) -> dict[str, Any]:
        """What waits for review, as JSON values."""
        return {"review": [[task.to_json(), other, alike] for task, other, alike in self.review]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Read what ``state_dict`` gave."""
        self.review = [(Task.from_json(task), other, alike) for task, other, alike in state["review"]]

    def _signature(self, task_id: str) -> npt.NDArray[np.uint64] | None:
        if task_id not in self._signatures:
            if task_id not in self.sources:
                return None
            self._signatures[task_id] = minhash(self.sources[task_id])
        return self._signatures[task_id]


def minhash(source: str, num_hashes: int = 128) -> npt.NDArray[np.uint64]:
    """Return the MinHash signature of a program's normalised token 5-grams, shape (num_hashes,)."""
    tokens = normalised_tokens(source)
    return signature_of({" ".join(tokens[i : i + 5]) for i in range(max(1, len(tokens) - 4))}, num_hashes)


def signature_of(grams: Set[str], num_hashes: int = 128) -> npt.NDArray[np.uint64]:
    """Return the MinHash signature of a set of texts, shape (num_hashes,); at least one text.

    The share of equal places in two signatures estimates the Jaccard similarity of the sets. Multiply-shift hashing of
    blake2 digests; the same on every machine.
    """
    digests = sorted(int.from_bytes(hashlib.blake2b(gram.encode(), digest_size=8).digest(), "big") for gram in grams)
    values = np.array(digests, dtype=np.uint64)
    rng = np.random.default_rng(20260819)
    factors = rng.integers(1, 1 << 63, size=num_hashes, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    offsets = rng.integers(0, 1 << 63, size=num_hashes, dtype=np.uint64)
    signature: npt.NDArray[np.uint64] = (values[:, None] * factors[None, :] + offsets[None, :]).min(axis=0)
    return signature


def normalised_tokens(source: str) -> list[str]:
    """Return the tokens of a program without comments and layout; numbers and texts become placeholders."""
    tokens = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.NUMBER:
                tokens.append("0")
            elif token.type == tokenize.STRING or tokenize.tok_name[token.type].startswith("FSTRING"):
                tokens.append('""')
            elif token.type in (tokenize.NAME, tokenize.OP):
                tokens.append(token.string)
    except (tokenize.TokenError, SyntaxError):
        return source.split()
    return tokens
