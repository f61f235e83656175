"""One update from top to bottom: trajectories in, one set of weights changed for both roles, metrics out.

Departures from the released code: designer trajectories carry the capped weight w of method, section 7; tokens whose
advantage is 0 are not computed when nothing else depends on them (their gradient is 0; they count in every mean all the
same); from a batch without any advantage nothing is learnt, and Adam does not step.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import msgspec
import numpy as np
import torch

from spade_gym.selfplay.trainer import PolicyRole, Trajectory, UpdateBatch
from spade_trainers.grpo import checkpoint
from spade_trainers.grpo.adapters import adapt
from spade_trainers.grpo.advantages import judge
from spade_trainers.grpo.dealing import Part, deal
from spade_trainers.grpo.guard import check_trajectories, not_finite, with_tokens
from spade_trainers.grpo.logprobs import Sampled, Scored, fused_loss
from spade_trainers.grpo.loss import TokenLoss, Tokens, token_loss
from spade_trainers.grpo.metrics import TokenRecord, of_trajectories
from spade_trainers.grpo.metrics_log import MetricsLog
from spade_trainers.grpo.optimiser import Optimiser
from spade_trainers.grpo.packing import IDLE, Arranged, Piece
from spade_trainers.grpo.policy import GrpoError, Policy
from spade_trainers.grpo.processes import Processes
from spade_trainers.grpo.reference import AdaptersOff, FrozenCopy
from spade_trainers.grpo.settings import GrpoSettings
from spade_trainers.grpo.sharding import own_part, whole

logger = logging.getLogger(__name__)

#: Mean difference in nats of fresh tokens' log-probabilities from which on something must be wrong; bfloat16 gives .01.
_LARGEST_MISMATCH = 0.1

#: What went wrong, and in which trajectories, by their index in the update.
Problem = tuple[str, list[int]]

#: Hands new weights to the engine that plays: their version, and the model's named weights where it keeps its own.
Publish = Callable[[int, Iterable[tuple[str, Any]]], None]


class GrpoTrainer:
    """A :class:`spade_gym.selfplay.trainer.Trainer` on a model of transformers in this process.

    Args:
        model: Its weights are changed in place, or get adapters in place.
        settings: What it is told.
        publish: Called after every update and every ``load``.
        tokenizer: Written into checkpoints; ``None`` for none.
        policy_version: Of the weights as they are.
        end_ids: Tokens that end a reply, for the metric ``unended_share``.
        processes: Where the model's weights are spread over several (``sharding.py``): each has a trainer of its own,
            and all are called alike.
        reference: The frozen copy for the KL term, where weights are spread.

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
        processes: Processes | None = None,
        reference: Any = None,
    ) -> None:
        self.settings = settings
        self._publish, self._tokenizer, self._end_ids = publish, tokenizer, frozenset(end_ids)
        self._adapted = adapt(model, settings, seed=settings.seed) if settings.lora_rank else None
        self._processes = processes
        rank, size = (processes.rank, processes.size) if processes else (0, 1)
        self._is_first = rank == 0
        self._policy = Policy(model, settings, rank=rank, size=size)
        self._reference: FrozenCopy | AdaptersOff | None = None
        if settings.kl and self._adapted is not None:
            self._reference = AdaptersOff(self._policy, self._adapted)
        elif settings.kl:
            self._reference = FrozenCopy(self._policy, settings, reference)
        self._optimiser = Optimiser(model.named_parameters(), settings)
        self._rng = np.random.default_rng(settings.seed)
        self._version, self._num_updates = policy_version, 0
        self._log = MetricsLog(settings, writes=self._is_first)

    # ---- the protocol

    def update(self, batch: UpdateBatch) -> Mapping[str, float]:
        """Learn from a batch and hand the new weights on.

        Raises:
            GrpoError: Something is not finite; the trajectories are on disk then.
            ValueError: A trajectory cannot be learnt from: no ids, foreign ids, or numbers that are not finite.
        """
        begun = time.perf_counter()
        judged = judge(batch.trajectories, self.settings.advantages, drop_equal_groups=self.settings.drop_equal_groups)
        check_trajectories(judged.trajectories, self._policy.vocabulary)
        usable = with_tokens(judged.trajectories)
        record = TokenRecord(usable)
        norms = self._learn(usable, record)
        if norms:
            self._version += 1
            self._hand_on()
        self._num_updates += 1
        metrics = of_trajectories(usable, batch.rollout, self._end_ids)
        if self._processes:
            record.join(self._processes.gather(record.packed()))
        metrics.update(record.by_role(self.settings.weight_cap))
        self._warn_of_mismatch(metrics)
        metrics["dropped_trajectories"] = float(judged.num_dropped)
        metrics["trajectories_without_tokens"] = float(len(judged.trajectories) - len(usable))
        metrics["optimiser_steps"] = float(len(norms))
        metrics.update({"gradient_norm": float(np.mean(norms))} if norms else {})
        metrics["update_seconds"] = time.perf_counter() - begun
        num_tokens = sum(len(sample.ids) for item in usable for sample in item.samples)
        metrics["tokens_per_second"] = num_tokens / max(metrics["update_seconds"], 1e-9)
        self._log.write(batch.rollout, metrics)
        return metrics

    def save(self, folder: Path) -> None:
        """Write weights, optimiser, generator and counts (``checkpoint.py``)."""
        generator: dict[str, Any] = dict(self._rng.bit_generator.state)
        progress = checkpoint.Progress(self._num_updates, self._version, generator)
        checkpoint.save(
            folder, self._policy.model, self._tokenizer, self._optimiser, progress,
            adapted=self._adapted, writes=self._is_first,
        )  # fmt: skip

    def load(self, folder: Path) -> None:
        """Go on from where ``save`` was called, exactly; the engine gets the weights.

        Raises:
            GrpoError: The folder holds no checkpoint of this model and these settings.
        """
        stored = self._read(folder)
        checkpoint.apply(stored, self._policy.model, self._optimiser, adapted=self._adapted)
        progress = stored.progress
        self._num_updates, self._version = progress.num_updates, progress.policy_version
        self._rng.bit_generator.state = progress.generator
        self._hand_on()

    def _read(self, folder: Path) -> checkpoint.Stored:
        """Open a checkpoint: in all processes or in none."""
        stored, problem = None, ""
        try:
            stored = checkpoint.read(folder, self._policy.model, self._optimiser, adapted=self._adapted)
        except GrpoError as error:
            if self._processes is None:
                raise
            problem = str(error)
        for number, found in enumerate(self._processes.gather(problem.encode()) if self._processes else ()):
            if found:
                raise GrpoError(f"{found.decode()} (in the process of rank {number})")
        assert stored is not None
        return stored

    def _hand_on(self) -> None:
        """Give the engine the weights; spread ones come together one by one."""
        weights = ((name, whole(value)) for name, value in self._policy.model.state_dict().items())
        self._publish(self._version, weights)

    # ---- one update

    def _learn(self, trajectories: Sequence[Trajectory], record: TokenRecord) -> list[float]:
        """Make the optimiser steps of an update; return the norm of each one's gradient before it was clipped."""
        parts = deal(trajectories, self.settings, self._rng, policy_version=self._version)
        proximal: dict[tuple[int, int], torch.Tensor] = {}
        norms = []
        with self._computing():
            for part in parts[1:]:  # what the first step needs, it computes itself
                for micro, arranged in self._policy.micro_batches(part.pieces):
                    scored = self._policy.score(arranged, self._column(micro, _temperature(trajectories)))
                    _keep(proximal, micro, scored)
            for epoch in range(self.settings.epochs):
                for number, part in enumerate(parts):
                    is_first = epoch == number == 0
                    norms.append(self._step(part, trajectories, proximal, record, is_first=is_first))
        return norms

    def _step(
        self,
        part: Part,
        trajectories: Sequence[Trajectory],
        proximal: dict[tuple[int, int], torch.Tensor],
        record: TokenRecord,
        *,
        is_first: bool,
    ) -> float:
        """Sum the gradients of a part's micro-batches and step once; return the gradient's norm."""
        self._optimiser.clear()
        problems: list[Problem] = []
        for micro, arranged in self._policy.micro_batches(part.pieces):
            tokens = Tokens(
                self._column(micro, _coefficient(part)),
                self._column(micro, _advantage(trajectories)),
                self._column(micro, lambda piece: piece.behaviour),
                None if is_first else torch.cat([proximal[piece.key] for piece in micro]),
            )
            temperatures = self._column(micro, _temperature(trajectories))
            if self._reference is not None:
                tokens = tokens._replace(reference=self._reference.logprobs(arranged, temperatures))
            total, scored, found = self._loss(arranged, temperatures, tokens)
            if not math.isfinite(float(total.detach())):
                problems.append(("the loss is not finite", [piece.trajectory for piece in micro]))
                self._stop_for(problems if self._processes is None else [], trajectories)
            total.backward()  # type: ignore[no-untyped-call,unused-ignore]
            if micro[0].sample != IDLE:
                record.add(micro, tokens, scored, found)
            if is_first and self.settings.epochs > 1:
                _keep(proximal, micro, scored)
        self._stop_for(self._of_all(problems), trajectories)
        norm = self._optimiser.clip()
        if not math.isfinite(norm):
            names = ", ".join(self._optimiser.not_finite()[:3]) or "weights"
            blamed = [piece.trajectory for piece in part.pieces]
            self._stop_for(self._of_all([(f"the gradient of {names} is not finite", blamed)]), trajectories)
        self._optimiser.step()
        return norm

    def _loss(
        self, arranged: Arranged, temperatures: torch.Tensor, tokens: Tokens
    ) -> tuple[torch.Tensor, Scored, TokenLoss]:
        """Return the loss of a micro-batch, with its gradient, and what it was made of."""
        found: list[TokenLoss] = []

        def objective(rows: slice, logprobs: torch.Tensor, entropy: torch.Tensor) -> torch.Tensor:
            mine = tokens.rows(rows)
            found.append(token_loss(logprobs, entropy, mine, self.settings))
            return (mine.coefficient * found[-1].loss).sum()

        sampled = Sampled(self._policy.hidden(arranged), arranged.targets, temperatures)
        total, scored = fused_loss(sampled, self._policy.head, objective)
        return total, scored, TokenLoss.joined(found)

    def _column(self, micro: Sequence[Piece], value: Callable[[Piece], Iterable[float]]) -> torch.Tensor:
        """Return a number for each sampled token of a micro-batch."""
        dtype = torch.promote_types(self._policy.head.weight.dtype, torch.float32)
        numbers = [number for piece in micro for number in value(piece)]
        return torch.tensor(numbers, dtype=dtype, device=self._policy.device)

    @contextlib.contextmanager
    def _computing(self) -> Iterator[None]:
        with self._policy.computing(), self._reference.computing() if self._reference else contextlib.nullcontext():
            yield

    def _warn_of_mismatch(self, metrics: Mapping[str, float]) -> None:
        for role in get_args(PolicyRole):
            gap = metrics.get(f"{role}/fresh_mismatch", 0.0)
            if gap > _LARGEST_MISMATCH:
                logger.warning(
                    "log-probabilities of fresh tokens of the %s differ by %.3g on average between the engine that "
                    "sampled them and this trainer: do the weights and the temperature agree?",
                    role,
                    gap,
                )

    def _of_all(self, problems: list[Problem]) -> list[Problem]:
        """Return the problems of all processes: each must stop for those of any."""
        if self._processes is None:
            return problems
        told = self._processes.gather(msgspec.msgpack.encode(problems))
        return [problem for data in told for problem in msgspec.msgpack.decode(data, type=list[Problem])]

    def _stop_for(self, problems: Sequence[Problem], trajectories: Sequence[Trajectory]) -> None:
        """Raise for problems, if there are any; the trajectories to blame are on disk then."""
        if not problems:
            return
        self._optimiser.clear()
        what = problems[0][0]
        weights = self._policy.model.named_parameters()
        if odd := [name for name, value in weights if not bool(own_part(value).isfinite().all())]:
            what = f"{what}, and the weights were damaged before: {odd[0]} holds NaN or infinity"
        if not self._is_first:
            raise GrpoError(what)
        blamed = sorted({index for _, indices in problems for index in indices})
        raise not_finite(what, [trajectories[index] for index in blamed], self.settings.faults_folder)


def _coefficient(part: Part) -> Callable[[Piece], list[float]]:
    def of(piece: Piece) -> list[float]:
        coefficient = 0.0 if piece.sample == IDLE else part.coefficients[piece.trajectory]
        return [coefficient] * len(piece.places)

    return of


def _advantage(trajectories: Sequence[Trajectory]) -> Callable[[Piece], list[float]]:
    return lambda piece: [trajectories[piece.trajectory].advantage] * len(piece.places)


def _temperature(trajectories: Sequence[Trajectory]) -> Callable[[Piece], list[float]]:
    return lambda piece: [trajectories[piece.trajectory].temperature] * len(piece.places)


def _keep(found: dict[tuple[int, int], torch.Tensor], micro: Sequence[Piece], scored: Scored) -> None:
    """Keep the log-probabilities of each piece."""
    columns = torch.split(scored.logprobs, [len(piece.places) for piece in micro])
    found.update((piece.key, column) for piece, column in zip(micro, columns, strict=True))
