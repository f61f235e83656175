"""Does a designer repeat itself, or copy its documents? Watched live, program by program.

The reference implementation wrote one maze 41 times in a row before anybody noticed.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter, deque
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from spade_gym.curriculum.gates import minhash, signature_of
from spade_gym.designer.near_text import document_overlap
from spade_gym.programs.program import Program, digest_of
from spade_gym.programs.similarity import skeleton
from spade_gym.programs.syntax import parse

NoticeKind = Literal["duplicate", "same_code", "near", "skeleton", "document"]

_Signature = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Notice:
    """Something about a program that a person should know.

    Attributes:
        kind: ``duplicate`` (the same source as an earlier program), ``same_code`` (but for comments, docstrings and
            layout), ``near`` (resembles an earlier one), ``skeleton`` (one skeleton dominates of late), or ``document``
            (a passage was copied from the document).
        message: For people.
        resembles: Digest of the earlier program, or "".
        value: The resemblance, the share of the skeleton's programs, or of copied n-grams, in [0, 1].
    """

    kind: NoticeKind
    message: str
    resembles: str = ""
    value: float = 1.0

    def to_json(self) -> dict[str, Any]:
        """The notice as a JSON object."""
        return {"kind": self.kind, "message": self.message, "resembles": self.resembles, "value": self.value}


@dataclass(frozen=True, slots=True)
class Watch:
    """When :class:`Diversity` speaks up.

    Attributes:
        near: Estimated Jaccard similarity of normalised token 5-grams from which two programs are near duplicates.
            Different programs on different documents are at most at 0.3.
        skeleton: The same for 5-grams of node types, from which two programs share a skeleton.
        window: Latest programs that are looked at for a dominating skeleton.
        limit: Programs of one skeleton among them that raise the alarm.
        passage: Words of a passage that counts as copied.
        copied: Share of a program's word 5-grams that counts as copied.

    Raises:
        ValueError: A setting is out of range.
    """

    near: float = 0.8
    skeleton: float = 0.6
    window: int = 8
    limit: int = 4
    passage: int = 20
    copied: float = 0.1

    def __post_init__(self) -> None:
        """Refuse what could never, or would always, be noticed."""
        for name in ("near", "skeleton", "copied"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"{name} must be above 0 and at most 1, got {getattr(self, name)!r}")
        if not 2 <= self.limit <= self.window:
            raise ValueError(f"limit must be from 2 to window ({self.window}), got {self.limit}")
        if self.passage < 1:
            raise ValueError(f"passage must be at least 1 word, got {self.passage}")


class Summary(NamedTuple):
    """How varied the programs so far are.

    Attributes:
        num_programs: Programs seen, repetitions included.
        num_distinct: Distinct sources.
        num_skeletons: Groups of programs that share a skeleton.
        largest: Share of the largest group, in [0, 1]; ``None`` before the first program.
    """

    num_programs: int
    num_distinct: int
    num_skeletons: int
    largest: float | None


class Diversity:
    """Compares each new program with all earlier ones, and with its document.

    Args:
        watch: When it speaks up.
    """

    def __init__(self, watch: Watch | None = None) -> None:
        self.watch = watch or Watch()
        self._digests: dict[str, None] = {}
        self._codes: dict[str, str] = {}
        self._tokens: list[_Signature] = []
        self._leaders: list[_Signature] = []
        self._sizes: Counter[int] = Counter()
        self._latest: deque[int] = deque(maxlen=self.watch.window)

    def __contains__(self, digest: object) -> bool:
        """Whether a program of this digest was added."""
        return digest in self._digests

    def add(self, program: Program, document: str = "") -> tuple[Notice, ...]:
        """Remember a program and return what is to be said about it, the gravest first.

        Args:
            program: It.
            document: Text of the document that it is grounded in; "" where there is none.

        Raises:
            ReplyError: The source does not compile here.
        """
        found = [self._repeated(program), self._dominating(program.source), self._copied(program, document)]
        return tuple(notice for notice in found if notice is not None)

    def summary(self) -> Summary:
        """Return how varied the programs so far are."""
        total = sum(self._sizes.values())
        largest = max(self._sizes.values()) / total if total else None
        return Summary(total, len(self._digests), len(self._leaders), largest)

    def _repeated(self, program: Program) -> Notice | None:
        """Compare a program with all earlier ones, and remember it."""
        if program.digest in self._digests:
            return Notice("duplicate", "the same source as an earlier program", program.digest)
        code, tokens = _code_digest(program.source), minhash(program.source)
        same, near = self._codes.setdefault(code, program.digest), _nearest(tokens, self._tokens)
        earlier = list(self._digests)
        self._digests[program.digest] = None
        self._tokens.append(tokens)
        if same != program.digest:
            return Notice("same_code", f"the same code as {same[:12]}, but for comments, docstrings and layout", same)
        if near is None or near[1] < self.watch.near:
            return None
        digest = earlier[near[0]]
        return Notice("near", f"resembles {digest[:12]} ({near[1]:.2f})", digest, near[1])

    def _dominating(self, source: str) -> Notice | None:
        """Count the program to its skeleton's group, and tell when the latest programs are mostly of that group."""
        signature = signature_of({" ".join(gram) for gram in skeleton(source)} or {""})
        near = _nearest(signature, self._leaders)
        if near is None or near[1] < self.watch.skeleton:
            self._leaders.append(signature)
            group = len(self._leaders) - 1
        else:
            group = near[0]
        self._sizes[group] += 1
        self._latest.append(group)
        count = self._latest.count(group)
        if count < self.watch.limit:
            return None
        message = f"{count} of the latest {len(self._latest)} programs have one skeleton ({self._sizes[group]} in all)"
        return Notice("skeleton", message, value=count / len(self._latest))

    def _copied(self, program: Program, document: str) -> Notice | None:
        overlap = document_overlap(program.source, document)
        if overlap.share is None or (overlap.longest < self.watch.passage and overlap.share < self.watch.copied):
            return None
        message = f"copies its document: {overlap.share:.0%} of its word 5-grams, a passage of {overlap.longest} words"
        return Notice("document", message, value=overlap.share)

    def state_dict(self) -> dict[str, Any]:
        """What was seen, as JSON values."""
        return {
            "digests": list(self._digests),
            "codes": dict(self._codes),
            "tokens": [signature.tobytes().hex() for signature in self._tokens],
            "leaders": [signature.tobytes().hex() for signature in self._leaders],
            "sizes": [self._sizes[group] for group in range(len(self._leaders))],
            "latest": list(self._latest),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Read what ``state_dict`` gave."""
        self._digests = dict.fromkeys(state["digests"])
        self._codes = dict(state["codes"])
        self._tokens = [_signature(text) for text in state["tokens"]]
        self._leaders = [_signature(text) for text in state["leaders"]]
        self._sizes = Counter(dict(enumerate(state["sizes"])))
        self._latest = deque(state["latest"], maxlen=self.watch.window)


def _signature(text: str) -> _Signature:
    return np.frombuffer(bytes.fromhex(text), dtype=np.uint64)


def _nearest(signature: _Signature, others: list[_Signature]) -> tuple[int, float] | None:
    """Place and resemblance of the signature that is most alike, the earliest of equals; ``None`` of none."""
    if not others:
        return None
    alike = np.mean(np.stack(others) == signature, axis=1)
    place = int(np.argmax(alike))
    return place, float(alike[place])


def _code_digest(source: str) -> str:
    """A digest that programs share which differ in comments, docstrings and layout alone."""
    tree = parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                node.body = node.body[1:] or [ast.Pass()]
    try:
        return hashlib.sha256(ast.dump(tree).encode("utf-8", errors="surrogatepass")).hexdigest()
    except RecursionError:  # nested too deeply to be written down: it is only like itself
        return digest_of(source)
