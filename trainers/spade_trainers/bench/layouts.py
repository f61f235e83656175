"""How much sooner an update's passes are done when plays are packed, on the lengths of real plays.

The comparison is what a data loader that pads does: plays in random order, eight to a micro-batch, each as long as its
longest. Every layout computes the same gradient, forward and backward, with the same head; the optimiser is left out.
Seconds are the processor's: everything happens in this process, and on a machine with other work they are what repeats.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from spade_trainers.bench.duel import Say
from spade_trainers.bench.play_lengths import read_lengths, trajectories_of
from spade_trainers.bench.side import timed
from spade_trainers.bench.workload import Precision, Shape, model_of
from spade_trainers.grpo.settings import GrpoSettings

_ROWS, _TOKEN_BUDGET = 8, 2048
_WITHOUT, _RANDOM = "packed, nothing shared", "rows at random"
_SHARED = "packed and shared"


def compare_layouts(
    shape: Shape, *, precision: Precision, threads: int, repetitions: int, num_plays: int | None, say: Say
) -> dict[str, Any]:
    """Measure the passes of one update in each layout, in turn.

    Args:
        shape: Of the model.
        precision: Of the products.
        threads: Of PyTorch.
        repetitions: Medians are over as many, after a short micro-batch that does not count.
        num_plays: The first so many; ``None`` for all.
        say: Is told how it goes.
    """
    import torch

    from spade_trainers.grpo.packing import pieces_of

    torch.set_num_threads(threads)
    lengths, model = read_lengths(), model_of(shape)
    held = trajectories_of(lengths, int(model.config.vocab_size))[:num_plays]
    pieces = [piece for number, item in enumerate(held) for piece in pieces_of(item, number, policy_version=0)]
    passes = _passes(model, pieces, precision)
    passes[_SHARED]()
    spent: dict[str, list[float]] = {name: [] for name in passes}
    norms: dict[str, float] = {}
    for number in range(repetitions):
        for name, compute in passes.items():
            _, work = timed(compute)
            spent[name].append(work.processor)
            norms[name] = _gradient_norm(model)
            say(f"packing {number + 1}/{repetitions}, {name}: {work.processor:.2f} s of the processor")
    seconds = {name: statistics.median(values) for name, values in spent.items()}
    return {
        "packing_speedup": round(seconds[_RANDOM] / seconds[_SHARED], 4),
        "packing_speedup_nothing_shared": round(seconds[_RANDOM] / seconds[_WITHOUT], 4),
        "packing": {
            "shape": shape, "precision": precision, "threads": threads, "repetitions": repetitions,
            "source": lengths["source"], "plays": len(held), "tokens": sum(len(piece.ids) for piece in pieces),
            "sampled_tokens": sum(len(piece.targets) for piece in pieces),
            "token_budget": _TOKEN_BUDGET, "rows": _ROWS,
            "processor_seconds": {name: round(value, 4) for name, value in seconds.items()},
            "gradient_norms": {name: round(value, 6) for name, value in norms.items()},
        },
    }  # fmt: skip


def _passes(model: Any, pieces: Sequence[Any], precision: Precision) -> dict[str, Callable[[], None]]:
    """Return what computes the gradient in each layout."""
    from spade_trainers.grpo.policy import Policy

    settings = GrpoSettings(
        token_budget=_TOKEN_BUDGET, layout="packed", autocast="bfloat16" if precision == "bfloat16" else "off"
    )
    shared, alone = Policy(model, settings), Policy(model, replace(settings, least_shared=0))
    rows = Policy(model, replace(settings, layout="rows"))
    order = np.random.default_rng(0).permutation(len(pieces))
    dealt = [[pieces[index] for index in order[start : start + _ROWS]] for start in range(0, len(pieces), _ROWS)]
    return {
        _SHARED: lambda: _backward(shared, [list(micro) for micro, _ in shared.micro_batches(pieces)]),
        _WITHOUT: lambda: _backward(alone, [list(micro) for micro, _ in alone.micro_batches(pieces)]),
        "rows by length": lambda: _backward(rows, [list(micro) for micro, _ in rows.micro_batches(pieces)]),
        _RANDOM: lambda: _backward(rows, dealt),
    }


def _backward(policy: Any, dealt: Sequence[Sequence[Any]]) -> None:
    """Leave the gradient of the advantage-weighted log-probabilities in the model."""
    import torch

    from spade_trainers.grpo.logprobs import Sampled, fused_loss

    policy.model.zero_grad(set_to_none=True)
    with policy.computing():
        for micro in dealt:
            arranged = policy.arrange(micro)
            signs = torch.tensor([1.0 - 2.0 * (piece.trajectory % 2) for piece in micro for _ in piece.targets])
            sampled = Sampled(policy.hidden(arranged), arranged.targets, torch.ones(len(arranged.targets)))
            total, _ = fused_loss(sampled, policy.head, _objective(signs))
            total.backward()  # type: ignore[no-untyped-call,unused-ignore]


def _objective(signs: Any) -> Any:
    return lambda rows, logprobs, entropy: -(signs[rows] * logprobs).sum() / 1000


def _gradient_norm(model: Any) -> float:
    return float(sum(float(value.grad.double().square().sum()) for value in model.parameters()) ** 0.5)
