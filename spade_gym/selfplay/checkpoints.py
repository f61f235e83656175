"""The trainer's checkpoints in a run's folder: whole or absent, the last two kept, nothing else ever touched."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from spade_gym.curriculum.writer_lock import StoreError
from spade_gym.selfplay.run_store import RunStore
from spade_gym.selfplay.trainer import Trainer

_KEPT = 2


class Checkpoints:
    """Saves and loads.

    Args:
        store: The run's store; the folders lie beside its database.
        say: Told what a person should know.

    Raises:
        StoreError: What stands in the place of the folder is none.
    """

    def __init__(self, store: RunStore, say: Callable[[str], None]) -> None:
        self._store = store
        self._say = say
        self._root = store.folder / "checkpoints"
        if os.path.lexists(self._root) and (self._root.is_symlink() or not self._root.is_dir()):
            raise StoreError(f"{self._root} must be a folder of the run itself, no link; move it away")

    def save(self, trainer: Trainer, rollout: int) -> None:
        """Save after a rollout's update, and drop the run's own checkpoints but the last two."""
        folder = self._folder(rollout)
        partial = folder.with_suffix(".partial")
        self._remove(partial)
        partial.mkdir(parents=True)
        trainer.save(partial)
        if not partial.is_dir() or not any(partial.iterdir()):
            raise StoreError(f"the trainer {type(trainer).__name__} saved nothing into the folder that it was given")
        self._remove(folder)
        os.replace(partial, folder)
        self._store.put("checkpoints", {"rollout": rollout, "folder_path": folder.name, "saved_at": time.time()})
        for old in self._saved()[_KEPT:]:
            self._remove(self._folder(old))

    def load(self, trainer: Trainer) -> int:
        """Load the newest checkpoint that can be loaded; return its rollout, or -1 where there is none.

        Raises:
            StoreError: There are checkpoints, and none of them can be loaded.
        """
        saved = self._saved()
        errors = []
        for rollout in saved:
            folder = self._folder(rollout)
            if folder.is_symlink() or not folder.is_dir():
                continue
            try:
                trainer.load(folder)
            except Exception as error:  # a trainer may raise anything about a folder that is damaged
                errors.append(f"{folder.name}: {type(error).__name__}: {error}")
                self._say(f"checkpoint {folder.name} cannot be loaded, an earlier one is tried: {error}")
                continue
            return rollout
        if errors:
            raise StoreError(
                f"no checkpoint in {self._root} can be loaded ({'; '.join(errors)}); restore one from a copy"
            )
        if saved:
            self._say("the checkpoints are gone: the updates are made again from the kept plays")
        return -1

    def _saved(self) -> list[int]:
        """Rollouts with a checkpoint, newest first."""
        rows = self._store.rows("SELECT rollout FROM checkpoints ORDER BY rollout DESC")
        return [int(row["rollout"]) for row in rows]

    def _folder(self, rollout: int) -> Path:
        return self._root / f"{rollout:06d}"

    @staticmethod
    def _remove(folder: Path) -> None:
        """Remove a folder of ours; a link in its place is removed, never followed."""
        if folder.is_symlink() or folder.is_file():
            folder.unlink()
        elif folder.is_dir():
            shutil.rmtree(folder)
