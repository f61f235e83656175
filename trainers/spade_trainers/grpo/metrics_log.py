"""Metrics as TensorBoard and Weights & Biases show them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from spade_trainers.grpo.policy import GrpoError
from spade_trainers.grpo.settings import GrpoSettings

#: What Weights & Biases would collect besides: the machine, its packages, the repository, the terminal's text.
_NOTHING_ELSE: dict[str, Any] = {
    "console": "off", "silent": True, "disable_git": True, "disable_code": True, "x_disable_meta": True,
    "x_disable_stats": True, "x_disable_machine_info": True, "x_save_requirements": False,
}  # fmt: skip
#: Settings that are places on this machine.
_PLACES = {"path", "tensorboard", "wandb_folder", "faults_folder"}


class MetricsLog:
    """Writes metrics by the number of their rollout.

    Args:
        settings: ``tensorboard``, ``wandb``, ``wandb_mode`` and ``wandb_folder``; all settings but places on this
            machine are told to Weights & Biases as the run's configuration.
        writes: Whether anything is written: of several processes, one does.

    Raises:
        GrpoError: A package is not installed, or Weights & Biases refuses.
    """

    def __init__(self, settings: GrpoSettings, *, writes: bool = True) -> None:
        self._board = _tensorboard(settings.tensorboard) if writes and settings.tensorboard else None
        self._run = _wandb(settings) if writes and settings.wandb else None

    def write(self, rollout: int, metrics: Mapping[str, float]) -> None:
        """Write the metrics of one update; a repeated rollout is written again."""
        if self._board is not None:
            for name, value in metrics.items():
                self._board.add_scalar(name, value, rollout)
            self._board.flush()
        if self._run is not None:
            self._run.log({**metrics, "rollout": rollout})

    def close(self) -> None:
        """Write what is left; at the process's end that happens by itself."""
        if self._board is not None:
            self._board.close()
        if self._run is not None:
            self._run.finish()


def _tensorboard(folder: str) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise GrpoError(f"the setting tensorboard needs its package ({error}): pip install tensorboard") from error
    return SummaryWriter(folder)  # type: ignore[no-untyped-call,unused-ignore]


def _wandb(settings: GrpoSettings) -> Any:
    """Begin a run. Its key comes from ``wandb login`` or the environment; it is neither asked for nor kept here."""
    try:
        import wandb
    except ImportError as error:
        raise GrpoError(f"the setting wandb needs its package ({error}): pip install 'spade-gym[wandb]'") from error
    told = {name: value for name, value in dataclasses.asdict(settings).items() if name not in _PLACES}
    try:
        run = wandb.init(
            project=settings.wandb, mode=settings.wandb_mode, dir=settings.wandb_folder or None, config=told,
            settings=wandb.Settings(**_NOTHING_ELSE),
        )  # fmt: skip
    except wandb.Error as error:
        raise GrpoError(f"Weights & Biases cannot begin a run ({error}); wandb_mode = 'offline' needs none") from error
    run.define_metric("*", step_metric="rollout")
    return run
