"""What an update looked like, by role: finite numbers by name, and none where there was nothing to measure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import msgspec
import numpy as np
import numpy.typing as npt
import torch

from spade_gym.selfplay.trainer import PolicyRole, Trajectory
from spade_trainers.grpo.aggregation import num_sampled
from spade_trainers.grpo.logprobs import Scored
from spade_trainers.grpo.loss import TokenLoss, Tokens
from spade_trainers.grpo.packing import Piece

Column = npt.NDArray[np.float64]
_Row = tuple[list[PolicyRole], dict[str, bytes]]


class TokenRecord:
    """Collects numbers of tokens, micro-batch by micro-batch.

    Args:
        trajectories: Of the update; pieces point into it.
    """

    def __init__(self, trajectories: Sequence[Trajectory]) -> None:
        self._roles = [item.role for item in trajectories]
        self._rows: list[tuple[list[PolicyRole], dict[str, Column]]] = []

    def add(self, pieces: Sequence[Piece], tokens: Tokens, scored: Scored, found: TokenLoss) -> None:
        """Take a micro-batch.

        Args:
            pieces: In the order of the tokens.
            tokens: What was known before.
            scored: Under π_θ.
            found: The losses.
        """
        proximal = scored.logprobs if tokens.proximal is None else tokens.proximal
        columns = {
            "ratio": found.ratio,
            "clip_share": found.clipped,
            "weight": found.weight,
            "entropy": scored.entropy,
            "behaviour_kl": tokens.behaviour - proximal,
            "log_gap": (proximal - tokens.behaviour).abs(),
        }
        if found.k3 is not None:
            columns["kl"] = found.k3
        numbers = {name: _numbers(value) for name, value in columns.items()}
        counts = [len(piece.places) for piece in pieces]
        numbers["fresh"] = np.repeat([float(piece.is_fresh) for piece in pieces], counts)
        numbers["kept_mass"] = np.exp(
            [whole - kept for piece in pieces for whole, kept in zip(piece.behaviour, piece.kept, strict=True)]
        )
        roles = [self._roles[piece.trajectory] for piece in pieces for _ in piece.places]
        self._rows.append((roles, numbers))

    def packed(self) -> bytes:
        """Return what was collected as data for :meth:`join`."""
        rows = [(roles, {name: value.tobytes() for name, value in numbers.items()}) for roles, numbers in self._rows]
        return msgspec.msgpack.encode(rows)

    def join(self, records: Sequence[bytes]) -> None:
        """Take the place of what several processes collected, in their order."""
        found = [row for data in records for row in msgspec.msgpack.decode(data, type=list[_Row])]
        self._rows = [
            (roles, {name: np.frombuffer(value) for name, value in columns.items()}) for roles, columns in found
        ]

    def by_role(self, weight_cap: float) -> dict[str, float]:
        """Return means over each role's tokens, as ``role/name``; nothing for a role without any.

        Args:
            weight_cap: At which w is held; 0: it is switched off.
        """
        return {
            f"{role}/{name}": value
            for role in get_args(PolicyRole)
            for name, value in self._of(role, weight_cap).items()
        }

    def _of(self, role: PolicyRole, weight_cap: float) -> dict[str, float]:
        mine = [
            {name: values[[one == role for one in roles]] for name, values in numbers.items()}
            for roles, numbers in self._rows
            if role in roles
        ]
        if not mine:
            return {}
        whole = {name: np.concatenate([numbers[name] for numbers in mine]) for name in mine[0]}
        fresh, gaps = whole.pop("fresh") > 0, whole.pop("log_gap")
        metrics = {name: float(values.mean()) for name, values in whole.items()}
        metrics["ratio_max"] = float(whole["ratio"].max())
        if weight_cap:
            metrics["weight_capped_share"] = float((whole["weight"] >= weight_cap).mean())
        if fresh.any():
            metrics["fresh_mismatch"] = float(gaps[fresh].mean())
        return metrics


def of_trajectories(trajectories: Sequence[Trajectory], rollout: int, end_ids: frozenset[int]) -> dict[str, float]:
    """Return metrics of each role's trajectories, as ``role/name``.

    Args:
        trajectories: Of the update.
        rollout: Its number.
        end_ids: Tokens that end a reply; without any, ``unended_share`` is not told. With stop texts replies end
            without one, too.
    """
    metrics: dict[str, float] = {}
    for role in get_args(PolicyRole):
        mine = [item for item in trajectories if item.role == role]
        metrics[f"{role}/trajectories"] = float(len(mine))
        if not mine:
            continue
        values = np.array([item.advantage for item in mine])
        metrics[f"{role}/reward"] = float(np.mean([item.reward for item in mine]))
        metrics[f"{role}/advantage_std"] = float(values.std())
        metrics[f"{role}/nonzero_advantages"] = float((values != 0).mean())
        metrics[f"{role}/sampled_tokens"] = float(np.mean([num_sampled(item) for item in mine]))
        metrics[f"{role}/rollouts_old"] = float(np.mean([rollout - item.born for item in mine]))
        metrics[f"{role}/temperature"] = float(np.mean([item.temperature for item in mine]))
        lasts = [sample.ids[-1] for item in mine for sample in item.samples[-1:]]
        if end_ids and lasts:
            metrics[f"{role}/unended_share"] = float(np.mean([last not in end_ids for last in lasts]))
    return metrics


def _numbers(values: torch.Tensor) -> Column:
    return values.detach().double().cpu().numpy()  # type: ignore[no-any-return,unused-ignore]
