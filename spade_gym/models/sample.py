"""Token ids as a trainer needs them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sample:
    """Token ids that are trained on together: a whole chat, or one turn of a model that thinks.

    Attributes:
        ids: Prompt and completions in the order in which they were seen.
        mask: 1 on sampled tokens with their end token, 0 elsewhere; as long as ``ids``.
        logprobs: Of the sampled ids when they were drawn (``Completion.logprobs``), 0.0 elsewhere.
        kept_logprobs: The same after top-p and top-k.
        policy_versions: Of each completion in it, in order.
    """

    ids: tuple[int, ...]
    mask: tuple[int, ...]
    logprobs: tuple[float, ...]
    kept_logprobs: tuple[float, ...]
    policy_versions: tuple[int, ...]
