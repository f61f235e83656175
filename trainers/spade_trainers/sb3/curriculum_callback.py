"""How a curriculum's state stands beside the checkpoints of Stable-Baselines3."""

from __future__ import annotations

import json
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

from spade_gym.curriculum.memory_file import write_json
from spade_gym.errors import SpadeError

_LEARNS_ANYWAY = (
    "this curriculum hands out plays that are only for scoring (info['train'] is False), and Stable-Baselines3 learns "
    "from them too, so this is not the method that the preset names. Take a preset that trains on every play, such as "
    "'plr' or 'uniform', or a trainer of your own that leaves these plays out"
)


class CurriculumCallback(BaseCallback):  # type: ignore[misc,unused-ignore]
    """Saves the curriculum as ``CheckpointCallback`` saves the model, counts policy versions, and logs.

    Files are ``<name_prefix>_curriculum_<steps>_steps.json``, beside ``<name_prefix>_<steps>_steps.zip``;
    ``load_curriculum`` reads them. Environments that have ``set_policy_version`` learn the number of the rollout, which
    outcomes then name. Logged: ``curriculum/num_tasks``, ``num_asks``, ``num_counted``, ``num_excluded``, ``num_late``.

    Stable-Baselines3 learns from every play, also from those that a curriculum wants only for scoring
    (``info["train"]`` is false): at the first of them there is a ``UserWarning``.

    Args:
        curriculum: The ``Curriculum`` or ``DurableCurriculum`` of this process, or the ``CurriculumServer`` that
            serves it.
        save_freq: Calls of ``step`` between two files, as for ``CheckpointCallback``; 0 saves nothing.
        save_path: Their folder.
        name_prefix: As for ``CheckpointCallback``.

    Raises:
        ValueError: ``save_freq`` is negative.
    """

    def __init__(self, curriculum: Any, save_freq: int, save_path: Path | str, name_prefix: str = "rl_model") -> None:
        super().__init__()
        if save_freq < 0:
            raise ValueError(f"save_freq must be at least 0, got {save_freq!r}")
        self.curriculum = curriculum
        self.save_freq = save_freq
        self.save_path = Path(save_path)
        self.name_prefix = name_prefix
        self._num_rollouts = 0
        self._warned = False

    def _on_training_start(self) -> None:
        if self.save_freq:
            self.save_path.mkdir(parents=True, exist_ok=True)
        if isinstance(self.model, OnPolicyAlgorithm):  # a model that was loaded goes on counting
            self._num_rollouts = self.num_timesteps // (self.model.n_steps * self.training_env.num_envs)

    def _on_rollout_start(self) -> None:
        if self.training_env.has_attr("set_policy_version"):
            self.training_env.env_method("set_policy_version", self._num_rollouts)
        self._num_rollouts += 1

    def _on_step(self) -> bool:
        if self.save_freq and self.n_calls % self.save_freq == 0:
            self.save()
        if not self._warned and any(info.get("train") is False for info in self.locals["infos"]):
            self._warned = True
            warnings.warn(_LEARNS_ANYWAY, UserWarning, stacklevel=2)
        return True

    def save(self) -> Path:
        """Write the curriculum's state now; return the file."""
        path = self.save_path / f"{self.name_prefix}_curriculum_{self.num_timesteps}_steps.json"
        with _locked(self.curriculum) as curriculum:
            state = curriculum.state_dict()
        write_json(path, state)
        return path

    def _on_rollout_end(self) -> None:
        with _locked(self.curriculum) as curriculum:
            inner = getattr(curriculum, "curriculum", curriculum)
            self.logger.record("curriculum/num_tasks", len(inner.memory))
            self.logger.record("curriculum/num_asks", inner.num_asks)
            for receipt in ("counted", "excluded", "late"):
                self.logger.record(f"curriculum/num_{receipt}", inner.receipts[receipt])


def load_curriculum(curriculum: Any, path: Path | str) -> None:
    """Bring a curriculum with the same settings to the state of a file.

    Args:
        curriculum: As for ``CurriculumCallback``.
        path: A file that the callback wrote.

    Raises:
        SpadeError: The file cannot be read.
        ValueError: It is of a newer version.
    """
    try:
        state = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SpadeError(f"{path} cannot be read as a curriculum's state: {error}") from error
    with _locked(curriculum) as inner:
        inner.load_state_dict(state)


def _locked(curriculum: Any) -> Any:
    return curriculum.locked() if hasattr(curriculum, "locked") else nullcontext(curriculum)
