"""The part of GEM's ``gem.core`` that programs derive from, so that they run without GEM installed."""

from __future__ import annotations

import random
from typing import Any


class Env:
    """GEM's environment interface: text in, text out; ``reset(seed)`` seeds the global ``random``."""

    def reset(self, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        """Seed the global generator; subclasses call this first, then return (observation, info)."""
        if seed is not None:
            random.seed(seed)
        return "", {}

    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Play one action; subclasses override this."""
        raise NotImplementedError(f"{type(self).__name__} does not define step")

    def close(self) -> None:
        """Nothing to release."""


class EnvWrapper(Env):
    """Passes everything on to the wrapped environment."""

    def __init__(self, env: Env) -> None:
        self.env = env

    def reset(self, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the wrapped environment."""
        return self.env.reset(seed=seed)

    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step the wrapped environment."""
        return self.env.step(action)
