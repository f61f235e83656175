"""What a rollout costs besides generation and the update: a run of SmolLM2 with every part's time written down.

The recipe is ``recorded-demo`` with this trainer and a KL term (so that every sampled token is computed). Validation of
the designer's programs is a part of its own: it happens once a pool, not once a rollout, and grows with the programs.
"""

from __future__ import annotations

import dataclasses
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from spade_gym.models.base import ModelError
from spade_gym.models.open_model import open_model
from spade_gym.programs.program import Program
from spade_gym.rollout.play import Play
from spade_gym.selfplay.recipe_file import read_recipe
from spade_gym.selfplay.run import open_run
from spade_gym.selfplay.selfplay import Cycle
from spade_gym.validation.finding import Verdict
from spade_gym.validation.validate import validate
from spade_trainers.bench.duel import Say

#: What the recipe is told; saving is left out, since a checkpoint's cost is that of the disk.
_OVERRIDES = ("trainer.name='grpo'", "trainer.options={ kl = 0.005 }", "trainer.save_every=1000", "cycle.rollouts=2")


class Watch:
    """Adds up the seconds of calls.

    Attributes:
        seconds: So far. Calls at the same time count once.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._lock, self._inside, self._since = threading.Lock(), 0, 0.0

    def watched(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a call that is timed."""

        def timed(*arguments: Any, **named: Any) -> Any:
            with self._lock:
                if not self._inside:
                    self._since = time.perf_counter()
                self._inside += 1
            try:
                return call(*arguments, **named)
            finally:
                with self._lock:
                    self._inside -= 1
                    if not self._inside:
                        self.seconds += time.perf_counter() - self._since

        return timed


class Watched:
    """An object some of whose calls are timed; everything else is its own.

    Args:
        own: The object.
        watch: Takes the times.
        names: Of the calls.
    """

    def __init__(self, own: Any, watch: Watch, names: Sequence[str]) -> None:
        self._own = own
        self._timed = {name: watch.watched(getattr(own, name)) for name in names}

    def __getattr__(self, name: str) -> Any:
        return self._timed[name] if name in self._timed else getattr(self._own, name)


def measure(*, model: str, say: Say, threads: int) -> dict[str, Any]:
    """Run two rollouts and return the second one's parts: the first also warms everything up.

    Args:
        model: As recipes name it; ``smollm2`` for the figure.
        say: Is told how it goes.
        threads: Of PyTorch.
    """
    try:
        engine = open_model(model)
    except ModelError as error:
        return {"overhead_share": None, "overhead_reason": str(error)}
    import torch

    torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory(prefix="spade-bench-") as folder:
        return _run(engine, Path(folder) / "run", say)


def _run(engine: Any, folder: Path, say: Say) -> dict[str, Any]:
    watches = {name: Watch() for name in ("generation", "update", "validation")}
    judge: Callable[[Program], Verdict] = watches["validation"].watched(validate)
    agent: Any = Watched(engine, watches["generation"], ("submit", "collect"))
    rows: list[dict[str, float]] = []
    plays: list[Play] = []
    with open_run(read_recipe("recorded-demo", list(_OVERRIDES)), folder, agent=agent, judge=judge) as opened:
        trainer: Any = Watched(opened.trainer, watches["update"], ("update",))
        cycle = Cycle(dataclasses.replace(opened, trainer=trainer))
        settings = opened.recipe.cycle
        for rollout in range(settings.rollouts):
            before, begun = {name: watch.seconds for name, watch in watches.items()}, time.perf_counter()
            designer = cycle.close_window(rollout)
            cycle.regenerate(rollout)
            cycle.play(rollout, "hint", settings.hint_plays)
            plays = cycle.play(rollout, "plain", settings.plays)
            cycle.learn(rollout, plays, designer)
            total = time.perf_counter() - begun
            rows.append({"total": total} | {name: watch.seconds - before[name] for name, watch in watches.items()})
            say(f"rollout {rollout}: " + ", ".join(f"{name} {value:.2f} s" for name, value in rows[-1].items()))
    last = rows[-1]
    without = last["total"] - last["validation"]
    other = without - last["generation"] - last["update"]
    return {
        "overhead_share": round(other / without, 4),
        "overhead_reason": None,
        "overhead": {
            "model": engine.name,
            "recipe": "recorded-demo",
            "overrides": list(_OVERRIDES),
            "seconds": {name: round(value, 3) for name, value in last.items()},
            "other_seconds": round(other, 3),
            "validation_share_of_total": round(last["validation"] / last["total"], 4),
            "plays": len(plays),
            "sampled_tokens": sum(play.completion_tokens for play in plays),
        },
    }
