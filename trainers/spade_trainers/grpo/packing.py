"""Which samples are computed together, and how they lie in memory.

Every sampled token keeps its coefficient whatever micro-batch it falls into, so the sum of the micro-batches' gradients
is that of the whole batch. ``packed``: samples behind one another in one row, positions counted anew in each, attention
kept apart (``attention.py``): no padding at all. ``rows``: one row a sample, padded at the right, where causal
attention never looks; samples of similar length share a micro-batch.

Packed samples that begin alike can share what they begin with (``prefixes.py``).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch

from spade_gym.selfplay.trainer import Trajectory
from spade_trainers.grpo.prefixes import Segment, shared_length, tree_of

#: Stands for the sample of a piece that counts nothing (``shares.py``).
IDLE = -1


class Piece(NamedTuple):
    """A sample as the model computes it: up to the token before the last sampled one.

    Attributes:
        trajectory: Index of its trajectory in the update.
        sample: Index of the sample in its trajectory, or ``IDLE``.
        ids: Token ids.
        places: Indices of ids whose next token was sampled, ascending.
        targets: Those next tokens.
        behaviour: Their log-probabilities when they were sampled.
        kept: The same after top-p and top-k.
        is_fresh: Whether all of it was sampled by the weights that are now updated.
    """

    trajectory: int
    sample: int
    ids: tuple[int, ...]
    places: tuple[int, ...]
    targets: tuple[int, ...]
    behaviour: tuple[float, ...]
    kept: tuple[float, ...]
    is_fresh: bool

    @property
    def key(self) -> tuple[int, int]:
        """Names it within the update."""
        return self.trajectory, self.sample


class Arranged(NamedTuple):
    """Pieces as tensors.

    Attributes:
        ids: Of shape (1, tokens) packed, (pieces, longest) in rows.
        positions: Of the shape of ``ids``.
        segments: Which tokens see which, where they are packed; ``None`` in rows.
        places: Indices into ``ids.flatten()`` before each sampled token, in the order of the pieces, shape (sampled,).
        targets: The sampled tokens, shape (sampled,).
    """

    ids: torch.Tensor
    positions: torch.Tensor
    segments: tuple[Segment, ...] | None
    places: torch.Tensor
    targets: torch.Tensor


def pieces_of(trajectory: Trajectory, index: int, *, policy_version: int) -> list[Piece]:
    """Return the samples of a trajectory that hold sampled tokens.

    Args:
        trajectory: With samples as :class:`spade_gym.models.sample.Sample` describes them.
        index: Its index in the update.
        policy_version: Of the weights that are updated.

    Raises:
        ValueError: Lengths differ, a mask is not of 0 and 1, or the first token is said to be sampled.
    """
    found = []
    for number, sample in enumerate(trajectory.samples):
        if not len(sample.ids) == len(sample.mask) == len(sample.logprobs) == len(sample.kept_logprobs):
            raise ValueError(f"a sample of {trajectory.key!r} has ids, mask and log-probabilities of different lengths")
        if not set(sample.mask) <= {0, 1} or sample.mask[:1] == (1,):
            raise ValueError(
                f"a mask of {trajectory.key!r} must be of 0 and 1 and begin with 0 (nothing is sampled without a "
                f"prompt), got {sample.mask[:8]} …"
            )
        sampled = [place for place, mask in enumerate(sample.mask) if mask]
        if sampled:
            found.append(
                Piece(
                    index,
                    number,
                    sample.ids[: sampled[-1]],
                    tuple(place - 1 for place in sampled),
                    tuple(sample.ids[place] for place in sampled),
                    tuple(sample.logprobs[place] for place in sampled),
                    tuple(sample.kept_logprobs[place] for place in sampled),
                    set(sample.policy_versions) == {policy_version},
                )
            )
    return found


def micro_batches(
    pieces: Sequence[Piece], token_budget: int, layout: Literal["packed", "rows"], *, least_shared: int = 0
) -> list[tuple[Piece, ...]]:
    """Deal pieces to micro-batches of at most ``token_budget`` computed tokens; longer pieces are alone.

    Args:
        pieces: In any order.
        token_budget: Tokens, padding among them. With sharing a micro-batch may exceed it a little: what neighbours
            share counts as computed once even where it is too short for a segment of its own.
        layout: See the module.
        least_shared: As for :func:`arrange`.
    """
    if layout == "rows":
        return _rows(pieces, token_budget)
    found: list[list[Piece]] = []
    used = 0
    for piece in sorted(pieces, key=lambda piece: piece.ids):  # what begins alike stands together
        shared = shared_length(found[-1][-1].ids, piece.ids) if found else 0
        cost = len(piece.ids) - (shared if least_shared and shared >= least_shared else 0)
        if found and used + cost <= token_budget:
            found[-1].append(piece)
            used += cost
        else:
            found.append([piece])
            used = len(piece.ids)
    return [tuple(mine) for mine in found]


def _rows(pieces: Sequence[Piece], token_budget: int) -> list[tuple[Piece, ...]]:
    found: list[list[Piece]] = []
    for piece in sorted(pieces, key=lambda piece: -len(piece.ids)):  # the first of a micro-batch is its width
        if found and (len(found[-1]) + 1) * len(found[-1][0].ids) <= token_budget:
            found[-1].append(piece)
        else:
            found.append([piece])
    return [tuple(mine) for mine in found]


def arrange(
    pieces: Sequence[Piece], layout: Literal["packed", "rows"], device: torch.device | str, *, least_shared: int = 0
) -> Arranged:
    """Lay the pieces of one micro-batch out as tensors.

    Args:
        pieces: At least one.
        layout: See the module.
        device: Of the tensors.
        least_shared: Packed pieces that begin with at least so many tokens alike share them; 0: never.
    """
    targets = torch.tensor([token for piece in pieces for token in piece.targets], device=device)
    if layout == "rows":
        width = max(len(piece.ids) for piece in pieces)
        ids = torch.tensor([[*piece.ids, *[0] * (width - len(piece.ids))] for piece in pieces], device=device)
        places = [width * number + place for number, piece in enumerate(pieces) for place in piece.places]
        positions = torch.arange(width, device=device).expand(len(pieces), width)
        return Arranged(ids, positions, None, torch.tensor(places, device=device), targets)
    tree = tree_of([piece.ids for piece in pieces], least_shared)
    starts = list(itertools.accumulate((len(segment.ids) for segment in tree.segments), initial=0))
    ids = torch.tensor([[token for segment in tree.segments for token in segment.ids]], device=device)
    positions = torch.cat([torch.arange(len(segment.ids)) + segment.depth for segment in tree.segments])
    places = []
    for piece, path in zip(pieces, tree.paths, strict=True):
        columns = [starts[number] + place for number in path for place in range(len(tree.segments[number].ids))]
        places += [columns[place] for place in piece.places]
    return Arranged(ids, positions[None].to(device), tree.segments, torch.tensor(places, device=device), targets)
