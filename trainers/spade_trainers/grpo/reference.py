"""The initial weights, for the KL term: a frozen copy, or the same weights with their adapters off."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

import torch

from spade_trainers.grpo.packing import Arranged
from spade_trainers.grpo.policy import Policy
from spade_trainers.grpo.settings import GrpoSettings


class FrozenCopy:
    """A copy of a policy as it is now.

    It takes the memory of the weights once more. A resumed run makes it anew from the model that it opens, so that must
    be the model with which the run began.

    Args:
        policy: Whose weights are copied.
        settings: As the policy's.
        model: The copy, where weights are spread over processes: made when they were.
    """

    def __init__(self, policy: Policy, settings: GrpoSettings, model: Any = None) -> None:
        model = copy.deepcopy(policy.model) if model is None else model
        self._policy = Policy(model.requires_grad_(False).eval(), settings)

    @contextlib.contextmanager
    def computing(self) -> Iterator[None]:
        """Ready it for :meth:`logprobs`."""
        with self._policy.computing():
            yield

    def logprobs(self, arranged: Arranged, temperatures: torch.Tensor) -> torch.Tensor:
        """Return log π_ref of the sampled tokens, shape (sampled,)."""
        return self._policy.score(arranged, temperatures).logprobs

    def state(self) -> dict[str, torch.Tensor]:
        """Its weights by name."""
        return dict(self._policy.model.named_parameters())


class AdaptersOff:
    """A policy with adapters, without them: the initial weights at no memory.

    Args:
        policy: Whose adapters are trained.
        adapted: peft's model around the same weights.
    """

    def __init__(self, policy: Policy, adapted: Any) -> None:
        self._policy = policy
        self._adapted = adapted

    @contextlib.contextmanager
    def computing(self) -> Iterator[None]:
        """Ready it for :meth:`logprobs`; the policy must be ready already."""
        yield

    def logprobs(self, arranged: Arranged, temperatures: torch.Tensor) -> torch.Tensor:
        """Return log π_ref of the sampled tokens, shape (sampled,)."""
        with self._adapted.disable_adapter():
            return self._policy.score(arranged, temperatures).logprobs
