from __future__ import annotations

from pathlib import Path

import pytest

from spade_gym.curriculum.writer_lock import StoreError
from spade_gym.selfplay.checkpoints import Checkpoints
from spade_gym.selfplay.null_trainer import NullTrainer
from spade_gym.selfplay.run_store import RunStore


def quiet(text: str) -> None:
    pass


def trainer(num_updates: int = 0) -> NullTrainer:
    made = NullTrainer()
    made.num_updates = num_updates
    return made


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def test_the_last_two_of_the_runs_own_stay_and_others_are_never_touched(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        (tmp_path / "checkpoints" / "20210101").mkdir(parents=True)
        checkpoints = Checkpoints(store, quiet)
        for rollout in (8, 9, 999_999, 1_000_000):
            checkpoints.save(trainer(rollout), rollout)
        assert names(tmp_path) == ["1000000", "20210101", "999999"]
        found = trainer()
        assert checkpoints.load(found) == 1_000_000
        assert found.num_updates == 1_000_000


def test_a_link_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "2019").mkdir(parents=True)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "checkpoints").symlink_to(tmp_path / "elsewhere")
    with RunStore(tmp_path / "run") as store, pytest.raises(StoreError, match="no link"):
        Checkpoints(store, quiet)
    assert (tmp_path / "elsewhere" / "2019").is_dir()


def test_a_linked_checkpoint_is_not_loaded_and_not_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    with RunStore(tmp_path / "run") as store:
        checkpoints = Checkpoints(store, quiet)
        checkpoints.save(trainer(1), 1)
        (tmp_path / "run" / "checkpoints" / "000002.partial").symlink_to(victim)
        checkpoints.save(trainer(2), 2)
        assert list(victim.iterdir()) == []
        folder = tmp_path / "run" / "checkpoints" / "000002"
        folder.rename(victim / "moved")
        folder.symlink_to(victim / "moved")
        assert checkpoints.load(trainer()) == 1


def test_an_older_checkpoint_takes_the_place_of_a_damaged_one(tmp_path: Path) -> None:
    said: list[str] = []
    with RunStore(tmp_path) as store:
        checkpoints = Checkpoints(store, said.append)
        for rollout in (1, 2):
            checkpoints.save(trainer(rollout), rollout)
        (tmp_path / "checkpoints" / "000002" / "null.json").write_text("{")
        assert checkpoints.load(trainer()) == 1
        assert "000002 cannot be loaded" in said[0]
        (tmp_path / "checkpoints" / "000001" / "null.json").write_text("{")
        with pytest.raises(StoreError, match=r"no checkpoint .* can be loaded"):
            checkpoints.load(trainer())


def test_a_run_without_checkpoints_begins_and_one_that_lost_them_says_so(tmp_path: Path) -> None:
    said: list[str] = []
    with RunStore(tmp_path) as store:
        checkpoints = Checkpoints(store, said.append)
        assert checkpoints.load(trainer()) == -1
        assert said == []
        checkpoints.save(trainer(1), 1)
        (tmp_path / "checkpoints" / "000001").rename(tmp_path / "gone")
        assert checkpoints.load(trainer()) == -1
        assert "gone" in said[0]


class Lazy(NullTrainer):
    """Saves nothing."""

    def save(self, folder: Path) -> None:
        folder.rmdir()


def test_a_trainer_that_saves_nothing_is_told_so(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store, pytest.raises(StoreError, match="Lazy saved nothing"):
        Checkpoints(store, quiet).save(Lazy(), 0)
