"""A model of transformers as an update sees it: hidden states before sampled tokens, and the head."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import torch

from spade_gym.errors import SpadeError
from spade_trainers.grpo import attention
from spade_trainers.grpo.logprobs import Head, Sampled, Scored, chunk_of, score
from spade_trainers.grpo.packing import Arranged, Piece, arrange, micro_batches
from spade_trainers.grpo.settings import GrpoSettings
from spade_trainers.grpo.shares import share_of

#: A trial of a layout: lengths of its samples, how many tokens the first two begin with alike, and by how much
#: log-probabilities may differ on average.
_TRIAL_LENGTHS, _TRIAL_SHARED = (24, 28, 3), 20
_TRIAL_TOLERANCE = {torch.float64: 1e-5, torch.float32: 1e-3}
_HALF_TOLERANCE = 0.1


class GrpoError(SpadeError):
    """An update that cannot be computed for this model, or whose numbers are not finite."""


class Policy:
    """Computes log-probabilities of sampled tokens with a causal model of transformers.

    Args:
        model: On its device. It is put into training mode inside :meth:`computing` only.
        settings: Layout, memory and precision.
        rank: Number of this process, where the model's weights are spread over several (``sharding.py``).
        size: How many there are.

    Attributes:
        model: As given.
        layout: How micro-batches lie in memory, ``packed`` or ``rows``.
        device: Of the model.

    Raises:
        GrpoError: The model has no plain linear head, changes its logits behind it, drops activations at random, or
            cannot be packed although the settings say so.
    """

    def __init__(self, model: Any, settings: GrpoSettings, *, rank: int = 0, size: int = 1) -> None:
        self.model = model
        head = model.get_output_embeddings()
        if type(head) is not torch.nn.Linear:
            raise GrpoError(f"the model's head must be a plain torch.nn.Linear, got {type(head).__name__}")
        self.device = head.weight.device
        self._chunk = chunk_of(settings.head_mib, head.weight.shape[0], self.device.type)
        self._least_shared, self._token_budget = settings.least_shared, settings.token_budget
        self._rank, self._size = rank, size
        self._autocast = settings.autocast == "bfloat16" or (settings.autocast == "auto" and self.device.type == "cuda")
        self._checkpointing = settings.gradient_checkpointing
        if self._checkpointing:
            _refuse_dropout(model)
            _enable_checkpointing(model)
        self.layout: Literal["packed", "rows"] = self._try_layouts(settings.layout)
        self._let_go()

    @property
    def head(self) -> Head:
        """The last layer; of spread weights, behind :meth:`hidden` only."""
        layer = self.model.get_output_embeddings()
        return Head(layer.weight, layer.bias, self._chunk)

    @property
    def vocabulary(self) -> int:
        """How many token ids there are."""
        return int(self.model.get_input_embeddings().weight.shape[0])

    @contextlib.contextmanager
    def computing(self) -> Iterator[None]:
        """Ready the model for passes forward and backward; afterwards it is as it was."""
        training = self.model.training
        # Only in training mode does transformers checkpoint; nothing else may depend on the mode (``_refuse_dropout``).
        self.model.train(self._checkpointing)
        packed = self.layout == "packed"
        try:
            with attention.packed_attention(self.model) if packed else contextlib.nullcontext():
                yield
        finally:
            self.model.train(training)
            self._let_go()

    def micro_batches(self, pieces: Sequence[Piece]) -> Iterator[tuple[tuple[Piece, ...], Arranged]]:
        """Yield pieces in micro-batches within the token budget, laid out for this model.

        Where there are several processes, only this one's share, which may end with one of an idle piece.
        """

        def split(token_budget: int) -> list[tuple[Piece, ...]]:
            return micro_batches(pieces, token_budget, self.layout, least_shared=self._least_shared)

        for micro in share_of(pieces, split, self._token_budget, rank=self._rank, size=self._size):
            yield micro, self.arrange(micro)

    def arrange(self, pieces: Sequence[Piece]) -> Arranged:
        """Lay out a micro-batch for this model."""
        return arrange(pieces, self.layout, self.device, least_shared=self._least_shared)

    def hidden(self, arranged: Arranged) -> torch.Tensor:
        """Return hidden states before each sampled token, shape (sampled, width); inside :meth:`computing`."""
        extra = {} if arranged.segments is None else {"packing": attention.Packing(arranged.segments)}
        trunk = getattr(self.model, "to_hidden", self.model.base_model)
        half = torch.bfloat16 if self._autocast else None
        with torch.autocast(self.device.type, dtype=half, enabled=half is not None):
            output = trunk(input_ids=arranged.ids, position_ids=arranged.positions, use_cache=False, **extra)
        states: torch.Tensor = output.last_hidden_state.flatten(0, 1)[arranged.places]
        return states if half is None else states.to(half)

    def score(self, arranged: Arranged, temperatures: torch.Tensor) -> Scored:
        """Return log-probabilities and entropies of the sampled tokens; inside :meth:`computing`.

        Args:
            arranged: From :meth:`arrange`.
            temperatures: At which each token was sampled, shape (sampled,).
        """
        with torch.no_grad():
            return score(Sampled(self.hidden(arranged), arranged.targets, temperatures), self.head)

    def _let_go(self) -> None:
        """Give up weights that were gathered from other processes; those of the next step are others."""
        if hasattr(self.model, "to_hidden"):
            self.model.reshard()

    def _try_layouts(self, wanted: Literal["auto", "packed", "rows"]) -> Literal["packed", "rows"]:
        """Return a layout in which this model gives what it gives sample by sample."""
        expected = self._alone()
        problem = "its attention does not go through transformers' interface, or does not see the whole past"
        if wanted != "rows" and attention.can_pack(self.model):
            self.layout = "packed"
            difference = self._difference(expected)
            if difference <= self._tolerance:
                return "packed"
            problem = f"packed samples influence one another (log-probabilities differ by {difference:.3g})"
        if wanted == "packed":
            raise GrpoError(f"{type(self.model).__name__} cannot be packed: {problem}; use layout = 'auto' or 'rows'")
        self.layout = "rows"
        difference = self._difference(expected)
        if not difference <= self._tolerance:
            raise GrpoError(
                f"{type(self.model).__name__} does not give its own log-probabilities from base_model and head (they "
                f"differ by {difference:.3g}): it scales or caps its logits, or looks ahead; it cannot be trained"
            )
        return "rows"

    @property
    def _tolerance(self) -> float:
        dtype = self.model.get_output_embeddings().weight.dtype
        return _HALF_TOLERANCE if self._autocast else _TRIAL_TOLERANCE.get(dtype, _HALF_TOLERANCE)

    def _trial(self) -> list[Piece]:
        rng = np.random.default_rng(0)
        rows = [[int(token) for token in rng.integers(self.vocabulary, size=size)] for size in _TRIAL_LENGTHS]
        rows[1][:_TRIAL_SHARED] = rows[0][:_TRIAL_SHARED]
        return [Piece(0, 0, tuple(row[:-1]), tuple(range(len(row) - 1)), tuple(row[1:]), (), (), False) for row in rows]

    def _alone(self) -> torch.Tensor:
        """Log-probabilities of the trial from whole logits, one sample at a time."""
        found = []
        with torch.no_grad(), _evaluating(self.model):
            for piece in self._trial():
                ids = torch.tensor([piece.ids], device=self.device)
                logits = self.model(input_ids=ids, use_cache=False).logits[0]
                logits = logits if logits.dtype == torch.float64 else logits.float()
                targets = torch.tensor(piece.targets, device=self.device)
                found.append(logits.log_softmax(-1).gather(1, targets[:, None])[:, 0])
        return torch.cat(found)

    def _difference(self, expected: torch.Tensor) -> float:
        """Mean difference of log-probabilities in the present layout."""
        arranged = self.arrange(self._trial())
        with self.computing():
            try:
                found = self.score(arranged, torch.ones(len(arranged.places), device=self.device))
            except (TypeError, RuntimeError):  # an architecture that takes no position ids, or no further arguments
                return float("inf")
        return float((found.logprobs - expected).abs().mean())


@contextlib.contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def _enable_checkpointing(model: Any) -> None:
    told = {"use_reentrant": False}
    if hasattr(model, "activation_checkpointing_enable"):
        model.activation_checkpointing_enable(activation_checkpointing_kwargs=told)
    else:  # its name in earlier releases of transformers 5
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=told)


def _refuse_dropout(model: Any) -> None:
    """With checkpointing a model is in training mode, where dropout would make π_θ another policy at each pass."""
    named = {
        name: getattr(model.config.get_text_config(), name, None) or 0.0
        for name in ("attention_dropout", "hidden_dropout", "resid_pdrop", "embd_pdrop", "attn_pdrop")
    }
    named.update((name, module.p) for name, module in model.named_modules() if isinstance(module, torch.nn.Dropout))
    dropping = {name: rate for name, rate in named.items() if rate}
    if dropping:
        raise GrpoError(f"gradient_checkpointing needs a model without dropout, got {dropping}; set these to 0")
