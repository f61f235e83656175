"""One update from top to bottom: trajectories in, one set of weights changed for both roles, metrics out.

Departures from the released code: designer trajectories carry the capped weight w of method section 7 (there they are
trained as if they were fresh); tokens whose advantage is 0 are not computed when nothing else depends on them (their
gradient is 0; they still count in every mean); nothing is learnt, and Adam does not step, from a batch without any
advantage.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import torch

from spade_gym.selfplay.trainer import PolicyRole, Trajectory, UpdateBatch
from spade_trainers.grpo import checkpoint, guard
from spade_trainers.grpo.adapters import adapt
from spade_trainers.grpo.advantages import judge
from spade_trainers.grpo.aggregation import num_sampled, token_coefficients
from spade_trainers.grpo.logprobs import fused_loss
from spade_trainers.grpo.loss import TokenLoss, Tokens, token_loss
from spade_trainers.grpo.metrics import TokenRecord, of_trajectories
from spade_trainers.grpo.optimiser import Optimiser
from spade_trainers.grpo.packing import Piece, micro_batches, pieces_of
from spade_trainers.grpo.policy import Policy
from spade_trainers.grpo.reference import AdaptersOff, FrozenCopy
from spade_trainers.grpo.settings import GrpoSettings

#: Hands new weights to the engine that plays: their version, and the model's named weights where it keeps its own.
Publish = Callable[[int, Iterable[tuple[str, Any]]], None]


class _Part(NamedTuple):
    """What one optimiser step learns from.

    Attributes:
        pieces: Samples that have a gradient.
        coefficients: Of the tokens of each trajectory, by its index in the update.
    """

    pieces: list[Piece]
    coefficients: dict[int, float]


class GrpoTrainer:
    """A :class:`spade_gym.selfplay.trainer.Trainer` on a model of transformers in this process.

    Args:
        model: Its weights are changed in place, or get adapters in place.
        settings: What it is told.
        publish: Called after every update and every ``load``.
        tokenizer: Written into checkpoints; ``None`` for none.
        policy_version: Of the weights as they are.
        end_ids: Tokens that end a reply, for the metric ``unended_share``.

    Raises:
        GrpoError: The model cannot be trained so.
    """

    def __init__(
        self,
        model: Any,
        settings: GrpoSettings,
        publish: Publish,
        *,
        tokenizer: Any = None,
        policy_version: int = 0,
        end_ids: Iterable[int] = (),
    ) -> None:
        self.settings = settings
        self._publish, self._tokenizer, self._end_ids = publish, tokenizer, frozenset(end_ids)
        self._adapted = adapt(model, settings, seed=settings.seed) if settings.lora_rank else None
        self._policy = Policy(model, settings)
        self._reference: FrozenCopy | AdaptersOff | None = None
        if settings.kl:
            adapted = self._adapted
            self._reference = (
                FrozenCopy(self._policy, settings) if adapted is None else AdaptersOff(self._policy, adapted)
            )
        self._optimiser = Optimiser(model.named_parameters(), settings)
        self._rng = np.random.default_rng(settings.seed)
        self._version, self._num_updates = policy_version, 0
        self._writer: Any = None

    # ---- the protocol

    def update(self, batch: UpdateBatch) -> Mapping[str, float]:
        """Learn from a batch and hand the new weights on.

        Raises:
            GrpoError: Something is not finite; the trajectories are on disk then.
            ValueError: A trajectory cannot be learnt from: no ids, foreign ids, or numbers that are not finite.
        """
        begun = time.perf_counter()
        judged = judge(batch.trajectories, self.settings.advantages, drop_equal_groups=self.settings.drop_equal_groups)
        self._check(judged.trajectories)
        usable = [item for item in judged.trajectories if num_sampled(item)]
        if judged.trajectories and not usable:
            raise ValueError(
                "no trajectory holds sampled token ids: the engine that plays did not give them with their "
                "log-probabilities; take one that does (docs/models.md)"
            )
        record = TokenRecord(usable)
        steps = self._learn(usable, record)
        if steps:
            self._version += 1
            self._publish(self._version, self._policy.model.state_dict().items())
        self._num_updates += 1
        metrics = self._metrics(batch, usable, record, steps, time.perf_counter() - begun)
        metrics["dropped_trajectories"] = float(judged.num_dropped)
        metrics["trajectories_without_tokens"] = float(len(judged.trajectories) - len(usable))
        self._write(batch.rollout, metrics)
        return metrics

    def save(self, folder: Path) -> None:
        """Write weights, optimiser, generator and counts (``checkpoint.py``)."""
        generator: dict[str, Any] = dict(self._rng.bit_generator.state)
        progress = checkpoint.Progress(self._num_updates, self._version, generator)
        checkpoint.save(folder, self._policy.model, self._tokenizer, self._optimiser, progress, adapted=self._adapted)

    def load(self, folder: Path) -> None:
        """Go on from where ``save`` was called, exactly; the engine gets the weights.

        Raises:
            GrpoError: The folder holds no checkpoint of this model and these settings.
        """
        progress = checkpoint.load(folder, self._policy.model, self._optimiser, adapted=self._adapted)
        self._num_updates, self._version = progress.num_updates, progress.policy_version
        self._rng.bit_generator.state = progress.generator
        self._publish(self._version, self._policy.model.state_dict().items())

    # ---- one update

    def _learn(self, trajectories: Sequence[Trajectory], record: TokenRecord) -> list[float]:
        """Make the optimiser steps of an update; return the norm of each one's gradient before it was clipped."""
        parts = [part for part in self._deal(trajectories) if part.pieces]
        proximal: dict[Piece, torch.Tensor] = {}
        with self._computing():
            for part in parts[1:]:  # what the first step needs is what it computes anyway
                self._score(part, trajectories, proximal)
            norms = []
            for epoch in range(self.settings.epochs):
                for number, part in enumerate(parts):
                    is_first = epoch == number == 0
                    keeps = is_first and self.settings.epochs > 1
                    norms.append(self._step(part, trajectories, proximal, record, is_first=is_first, keeps=keeps))
        return norms

    def _deal(self, trajectories: Sequence[Trajectory]) -> list[_Part]:
        """Split an update into what each optimiser step of a pass learns from."""
        count = min(self.settings.minibatches, len(trajectories))
        order = list(range(len(trajectories)))
        if count > 1:
            order = [int(index) for index in self._rng.permutation(len(trajectories))]
        parts = []
        for number in range(count):
            mine = sorted(order[number::count])
            coefficients = token_coefficients(
                [trajectories[index] for index in mine],
                self.settings.aggregation,
                fixed_length=self.settings.fixed_length,
            )
            pieces = [
                piece
                for index in mine
                if trajectories[index].advantage or self.settings.kl or self.settings.entropy
                for piece in pieces_of(trajectories[index], index, policy_version=self._version)
            ]
            parts.append(_Part(pieces, dict(zip(mine, coefficients, strict=True))))
        return parts

    def _score(self, part: _Part, trajectories: Sequence[Trajectory], found: dict[Piece, torch.Tensor]) -> None:
        """Compute log π_prox of a part that comes after weights have changed."""
        for micro in micro_batches(part.pieces, self.settings.token_budget, self._policy.layout):
            arranged = self._policy.arrange(micro)
            scored = self._policy.score(arranged, self._temperatures(micro, trajectories))
            _keep(found, micro, scored.logprobs)

    def _step(
        self,
        part: _Part,
        trajectories: Sequence[Trajectory],
        proximal: dict[Piece, torch.Tensor],
        record: TokenRecord,
        *,
        is_first: bool,
        keeps: bool,
    ) -> float:
        """Sum the gradients of a part's micro-batches and step once; return the gradient's norm."""
        self._optimiser.clear()
        for micro in micro_batches(part.pieces, self.settings.token_budget, self._policy.layout):
            arranged = self._policy.arrange(micro)
            temperatures = self._temperatures(micro, trajectories)
            tokens = self._tokens(micro, part.coefficients, trajectories, None if is_first else proximal)
            if self._reference is not None:
                tokens = tokens._replace(reference=self._reference.logprobs(arranged, temperatures))
            found: list[TokenLoss] = []

            def objective(
                rows: slice,
                logprobs: torch.Tensor,
                entropy: torch.Tensor,
                tokens: Tokens = tokens,
                found: list[TokenLoss] = found,
            ) -> torch.Tensor:
                mine = tokens.rows(rows)
                found.append(token_loss(logprobs, entropy, mine, self.settings))
                return (mine.coefficient * found[-1].loss).sum()

            hidden = self._policy.hidden(arranged)
            total, scored = fused_loss(hidden, self._policy.head, arranged.targets, temperatures, objective)
            if not math.isfinite(float(total)):
                raise self._stop("the loss is not finite", micro, trajectories)
            total.backward()  # type: ignore[no-untyped-call,unused-ignore]
            record.add(micro, tokens, scored, _together(found))
            if keeps:
                _keep(proximal, micro, scored.logprobs)
        norm = self._optimiser.clip()
        if not math.isfinite(norm):
            names = ", ".join(self._optimiser.not_finite()[:3])
            raise self._stop(f"the gradient of {names} is not finite", part.pieces, trajectories)
        self._optimiser.step()
        return norm

    def _tokens(
        self,
        micro: Sequence[Piece],
        coefficients: Mapping[int, float],
        trajectories: Sequence[Trajectory],
        proximal: Mapping[Piece, torch.Tensor] | None,
    ) -> Tokens:
        """Gather what is known of a micro-batch's tokens."""

        def column(value: Callable[[Piece], Iterable[float]]) -> torch.Tensor:
            numbers = [number for piece in micro for number in value(piece)]
            return torch.tensor(numbers, dtype=self._dtype, device=self._policy.device)

        return Tokens(
            column(lambda piece: [coefficients[piece.trajectory]] * len(piece.places)),
            column(lambda piece: [trajectories[piece.trajectory].advantage] * len(piece.places)),
            column(lambda piece: piece.behaviour),
            None if proximal is None else torch.cat([proximal[piece] for piece in micro]),
        )

    def _temperatures(self, micro: Sequence[Piece], trajectories: Sequence[Trajectory]) -> torch.Tensor:
        numbers = [trajectories[piece.trajectory].temperature for piece in micro for _ in piece.places]
        return torch.tensor(numbers, dtype=self._dtype, device=self._policy.device)

    @property
    def _dtype(self) -> torch.dtype:
        return torch.promote_types(self._policy.head.weight.dtype, torch.float32)

    @contextlib.contextmanager
    def _computing(self) -> Iterator[None]:
        with self._policy.computing(), self._reference.computing() if self._reference else contextlib.nullcontext():
            yield

    # ---- what can go wrong, and what is told

    def _check(self, trajectories: Sequence[Trajectory]) -> None:
        """Refuse what would only show as nonsense later."""
        vocabulary = self._policy.vocabulary
        for item in trajectories:
            numbers = [item.advantage, item.reward]
            numbers += [number for sample in item.samples for number in (*sample.logprobs, *sample.kept_logprobs)]
            if not all(map(math.isfinite, numbers)):
                raise ValueError(f"a reward, advantage or log-probability of {item.key!r} is not finite")
            if not 0 < item.temperature < math.inf:
                raise ValueError(f"the temperature of {item.key!r} must be positive, got {item.temperature!r}")
            for sample in item.samples:
                if sample.ids and not 0 <= min(sample.ids) <= max(sample.ids) < vocabulary:
                    raise ValueError(
                        f"{item.key!r} holds token ids outside 0..{vocabulary - 1}: another model's, it seems"
                    )

    def _stop(self, what: str, pieces: Sequence[Piece], trajectories: Sequence[Trajectory]) -> Exception:
        self._optimiser.clear()
        if odd := [name for name, value in self._policy.model.named_parameters() if not bool(value.isfinite().all())]:
            what = f"{what}, and the weights were damaged before ({odd[0]} holds NaN or infinity)"
        blamed = sorted({piece.trajectory for piece in pieces})
        return guard.stop(what, [trajectories[index] for index in blamed], self.settings.faults_folder)

    def _metrics(
        self,
        batch: UpdateBatch,
        trajectories: Sequence[Trajectory],
        record: TokenRecord,
        norms: Sequence[float],
        seconds: float,
    ) -> dict[str, float]:
        metrics = of_trajectories(trajectories, batch.rollout, self._end_ids)
        for role in get_args(PolicyRole):
            found = record.of(role, weight_cap=self.settings.weight_cap)
            metrics.update((f"{role}/{name}", value) for name, value in found.items())
        metrics["optimiser_steps"] = float(len(norms))
        if norms:
            metrics["gradient_norm"] = float(np.mean(norms))
        metrics["update_seconds"] = seconds
        num_tokens = sum(len(sample.ids) for item in trajectories for sample in item.samples)
        metrics["tokens_per_second"] = num_tokens / max(seconds, 1e-9)
        return metrics

    def _write(self, rollout: int, metrics: Mapping[str, float]) -> None:
        if not self.settings.tensorboard:
            return
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(self.settings.tensorboard)  # type: ignore[no-untyped-call,unused-ignore]
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, rollout)
        self._writer.flush()


def _keep(found: dict[Piece, torch.Tensor], micro: Sequence[Piece], logprobs: torch.Tensor) -> None:
    counts = [len(piece.places) for piece in micro]
    found.update(zip(micro, logprobs.detach().split(counts), strict=True))


def _together(found: Sequence[TokenLoss]) -> TokenLoss:
    """Join the chunks of a micro-batch."""
    columns = zip(*found, strict=True)
    return TokenLoss(*(None if column[0] is None else torch.cat(column).detach() for column in columns))  # type: ignore[arg-type]
