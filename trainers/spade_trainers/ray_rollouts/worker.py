"""What runs in a worker: an engine of its own, and the programs' sandboxes beside it."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any

from spade_gym.models.base import Completion, ModelError
from spade_gym.models.open_model import open_model
from spade_gym.rollout.rollout import play_all
from spade_trainers.ray_rollouts.wire import Facts, packed, requests_of, task_of


class Worker:
    """Plays and completes with an engine; Ray makes an actor of it.

    Args:
        spec: Of the engine, as for ``open_model``.
        settings: Of the engine, as JSON.

    Raises:
        ModelError: It cannot be opened.
    """

    def __init__(self, spec: str, settings: str) -> None:
        self._model: Any = open_model(spec, **json.loads(settings))

    def facts(self) -> bytes:
        """Return ``Facts``."""
        model = self._model
        return packed(Facts(model.name, model.max_context, int(getattr(model, "policy_version", 0))))

    def process_id(self) -> int:
        """Return the number of this process on its machine."""
        return os.getpid()

    def play(self, task: bytes) -> bytes:
        """Play the orders of a ``PlayTask``; return their plays, in their order."""
        told = task_of(task)
        with self._clean():
            plays = play_all(
                told.orders,
                self._model,
                settings=told.settings,
                isolation=told.isolation,
                limits=told.limits,
                max_in_flight=told.max_in_flight,
                max_sessions=told.max_sessions,
                in_order=told.in_order,
            )
        return packed(plays)

    def complete(self, requests: bytes) -> bytes:
        """Answer requests; return the completions, in their order."""
        wanted = requests_of(requests)
        found: dict[str, Completion] = {}
        with self._clean():
            for request in wanted:
                self._model.submit(request)
            while len(found) < len(wanted):
                completions = self._model.collect()
                if not completions:
                    raise ModelError(f"{self._model.name}: collect() returned nothing while requests are in flight")
                found.update((completion.key, completion) for completion in completions)
        return packed([found[request.key] for request in wanted])

    def update_weights(self, version: int, tensors: bytes) -> None:
        """Take over new weights, as a file of safetensors.

        Raises:
            ModelError: The engine takes none, or others.
        """
        from safetensors.torch import load

        update = getattr(self._model, "update_weights", None)
        if update is None:
            raise ModelError(f"{self._model.name} does not take new weights; workers with transformers: or vllm: do")
        update(version, load(tensors).items())

    @contextlib.contextmanager
    def _clean(self) -> Any:
        """After an error nothing may be left in flight for the next task."""
        try:
            yield
        except BaseException:
            while self._model.collect():
                pass
            raise
