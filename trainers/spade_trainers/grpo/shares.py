"""Which micro-batches a process computes: as many as every other, because all of them gather weights together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spade_trainers.grpo.packing import IDLE, Piece

Micro = tuple[Piece, ...]


def share_of(
    pieces: Sequence[Piece], split: Callable[[int], list[Micro]], token_budget: int, *, rank: int, size: int
) -> list[Micro]:
    """Return the micro-batches of one process; those of all processes hold every piece once.

    A process that would have one fewer than others gets an idle one of a single token, which counts nothing.

    Args:
        pieces: At least one.
        split: Makes micro-batches for a token budget.
        token_budget: Of a micro-batch; it is halved until there is one for every process, if pieces can be split so.
        rank: Number of the process.
        size: How many there are.
    """
    micros = split(token_budget)
    while len(micros) < min(size, len(pieces)) and token_budget > 1:
        token_budget //= 2
        micros = split(token_budget)
    mine = micros[rank::size]
    missing = -(-len(micros) // size) - len(mine)
    return [*mine, *[(_idle(pieces[0]),)] * missing]


def _idle(piece: Piece) -> Piece:
    return Piece(piece.trajectory, IDLE, (0,), (0,), (0,), (0.0,), (0.0,), False)
