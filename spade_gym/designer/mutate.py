"""A designer that changes numbers of accepted programs: sizes, ranges, chances, small tables.

Only digits of the text change: comments, layout and all words stay as they are. Every mutant names its parent and
what was changed; whether it is sound is for the validation to find out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from spade_gym.curriculum.generators import nearby
from spade_gym.designer.deck import Deck, request_rng
from spade_gym.designer.mutation_sites import Site, mutation_sites
from spade_gym.designer.registry import label_of, program_reply
from spade_gym.designer.request import DesignerError, DesignReply, DesignRequest
from spade_gym.errors import ReplyError
from spade_gym.programs.program import Program, digest_of
from spade_gym.programs.reply import program_from_source

_STEP_SHARE = 0.5
#: Draws before a parent counts as exhausted, and parents that are tried for a request.
_DRAWS, _PARENTS = 20, 8


class Mutant(NamedTuple):
    """A changed program.

    Attributes:
        program: It, without the hint and the commands of its parent, which may no longer hold.
        mutation: What was changed, for example ``line 12: size 5 -> 7``.
    """

    program: Program
    mutation: str


def mutate(program: Program, rng: np.random.Generator, *, max_changes: int = 3) -> Mutant | None:
    """Change one or several numbers of a program, each to at least half and at most double of what it was.

    Args:
        program: The parent.
        rng: Draws which numbers change, and to what.
        max_changes: Most numbers that change, at least 1; fewer are likelier.

    Returns:
        A program of another digest, or ``None`` where no number may be changed.
    """
    changes: dict[int, tuple[Site, int | float]] = {}
    sites = _sites(program)
    wanted = min(int(rng.integers(1, max_changes + 1)) for _ in range(2))
    for index in rng.permutation(len(sites)):
        site = sites[int(index)]
        if len(changes) == wanted:
            break
        value = _other_value(site, rng)
        if site.group not in changes and value != site.value and value not in site.taken:
            changes[site.group] = (site, value)
    if not changes:
        return None
    ordered = sorted(changes.values(), key=lambda change: change[0].start)
    mutation = "; ".join(f"line {site.line}: {site.name} {site.value!r} -> {value!r}" for site, value in ordered)
    return Mutant(_child(program, _replaced(program.source, ordered), mutation), mutation)


def _sites(program: Program) -> tuple[Site, ...]:
    """The numbers that may change; none where the source does not compile here, or is nested too deeply."""
    try:
        return mutation_sites(program.source)
    except (ReplyError, RecursionError):
        return ()


def _other_value(site: Site, rng: np.random.Generator) -> int | float:
    """A value near a site's own; floats are rounded to two significant digits."""
    value: int | float = nearby((site.low, site.high), site.value, _STEP_SHARE, rng)
    return value if isinstance(value, int) else min(max(float(f"{value:.2g}"), site.low), site.high)


def _replaced(source: str, changes: Sequence[tuple[Site, int | float]]) -> str:
    """The text with other numbers in their places, which are in order."""
    data, pieces, position = source.encode("utf-8"), [], 0
    for site, value in changes:
        pieces += [data[position : site.start], repr(value).encode("ascii")]
        position = site.end
    return b"".join([*pieces, data[position:]]).decode("utf-8")


def _child(parent: Program, source: str, mutation: str) -> Program:
    """The changed source under its parent's manifest, as far as that still holds."""
    kept = {key: value for key, value in parent.manifest.origin.items() if key in ("document", "licence")}
    origin = {"kind": "mutant", "parent": parent.digest, "mutation": mutation, **kept}
    return Program(source, parent.manifest).with_manifest(
        description="", hint="", commands=(), max_turns=None, origin=origin
    )


class MutateDesigner:
    """Writes mutants of programs, none twice.

    The parent is one of the request's positive examples where it has any, which are the programs of highest regret
    (as ACCEL edits its best levels), otherwise the program of the pool that fits best and was used least.

    Args:
        programs: The pool, at least one program.
        name: For reports and manifests.
        max_changes: Most numbers that one mutation changes.

    Raises:
        DesignerError: There are no programs.
        PoolError: An entry of the pool is damaged.
        ValueError: ``max_changes`` is below 1.
    """

    def __init__(self, programs: Iterable[Program], *, name: str = "mutate", max_changes: int = 3) -> None:
        if max_changes < 1:
            raise ValueError(f"max_changes must be at least 1, got {max_changes}")
        self.name = name
        self._max_changes = max_changes
        self._programs = {program.digest: program for program in programs}
        if not self._programs:
            raise DesignerError("a designer that mutates programs needs at least one, got none")
        self._given = set(self._programs)
        self._deck = Deck(map(label_of, self._programs.values()), fit_first=True)

    def write(self, requests: Sequence[DesignRequest]) -> list[DesignReply]:
        """Answer each request with a mutant; one that asks for a repair gets another mutant."""
        return [self._answer(request) for request in requests]

    def seen(self, reply: DesignReply) -> None:
        """Count a mutant that an earlier part of the run wrote."""
        if reply.program is not None:
            self._given.add(reply.program.digest)
            self._deck.use(dict(reply.origin).get("parent", ""))

    def _answer(self, request: DesignRequest) -> DesignReply:
        rng = request_rng(request)
        for parent in self._parents(request, rng):
            for _ in range(_DRAWS):
                mutant = mutate(parent, rng, max_changes=self._max_changes)
                if mutant is None:
                    break
                if mutant.program.digest not in self._given:
                    self._given.add(mutant.program.digest)
                    self._deck.use(parent.digest)
                    return program_reply(request, mutant.program, designer=self.name)
        return DesignReply(request, "", error=f"no program for the setting {request.setting} gave a new mutant")

    def _parents(self, request: DesignRequest, rng: np.random.Generator) -> Iterator[Program]:
        """Parents to try, the request's positive examples first, in a random order."""
        for index in rng.permutation(len(request.positives)):
            source = request.positives[int(index)].source
            known = self._programs.get(digest_of(source))
            try:
                yield known or program_from_source(source, setting=request.setting, skill=request.skill)
            except ReplyError:  # an example that cannot be read is no parent; the pool's programs are
                continue
        for digest in self._deck.order(request)[:_PARENTS]:
            yield self._programs[digest]
