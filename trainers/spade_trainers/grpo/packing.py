"""Which samples are computed together, and how they lie in memory.

Every sampled token keeps its coefficient whatever micro-batch it falls into, so the sum of the micro-batches' gradients
is that of the whole batch. ``packed``: samples behind one another in one row, positions counted anew in each, attention
kept apart (``attention.py``): no padding at all. ``rows``: one row a sample, padded at the right, where causal attention
never looks; samples of similar length share a micro-batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch

from spade_gym.selfplay.trainer import Trajectory


class Piece(NamedTuple):
    """A sample as the model computes it: up to the token before the last sampled one.

    Attributes:
        trajectory: Index of its trajectory in the update.
        sample: Index of the sample in its trajectory.
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
        lengths: Of each piece, where they are packed; ``None`` in rows.
        places: Indices into ``ids.flatten()`` before each sampled token, shape (sampled,).
        targets: The sampled tokens, shape (sampled,).
    """

    ids: torch.Tensor
    positions: torch.Tensor
    lengths: tuple[int, ...] | None
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
    pieces: Sequence[Piece], token_budget: int, layout: Literal["packed", "rows"]
) -> list[tuple[Piece, ...]]:
    """Deal pieces to micro-batches of at most ``token_budget`` tokens, padding among them; longer ones are alone.

    Args:
        pieces: In any order; equal lengths keep it.
        token_budget: Tokens.
        layout: See the module.
    """
    by_length = sorted(pieces, key=lambda piece: -len(piece.ids))
    bins: list[list[Piece]] = []
    room: list[int] = []
    for piece in by_length:
        length = len(piece.ids)
        if layout == "packed":
            place = next((number for number, left in enumerate(room) if left >= length), len(bins))
        else:  # rows come in falling length: the first of a micro-batch is its width
            fits = bins and (len(bins[-1]) + 1) * len(bins[-1][0].ids) <= token_budget
            place = len(bins) - 1 if fits else len(bins)
        if place == len(bins):
            bins.append([])
            room.append(token_budget)
        bins[place].append(piece)
        room[place] -= length
    return [tuple(mine) for mine in bins]


def arrange(pieces: Sequence[Piece], layout: Literal["packed", "rows"], device: torch.device | str) -> Arranged:
    """Lay pieces out as tensors; tokens come in the order of the pieces in both layouts.

    Args:
        pieces: Of one micro-batch.
        layout: See the module.
        device: Of the tensors.
    """
    lengths = tuple(len(piece.ids) for piece in pieces)
    if layout == "packed":
        starts = [sum(lengths[:number]) for number in range(len(lengths))]
        ids = torch.tensor([[token for piece in pieces for token in piece.ids]])
        positions = torch.cat([torch.arange(length) for length in lengths])[None]
    else:
        width = max(lengths)
        starts = [width * number for number in range(len(lengths))]
        ids = torch.tensor([[*piece.ids, *[0] * (width - len(piece.ids))] for piece in pieces])
        positions = torch.arange(width).expand(len(lengths), width)
    places = [start + place for start, piece in zip(starts, pieces, strict=True) for place in piece.places]
    return Arranged(
        ids.to(device),
        positions.to(device),
        lengths if layout == "packed" else None,
        torch.tensor(places, device=device),
        torch.tensor([token for piece in pieces for token in piece.targets], device=device),
    )
