from __future__ import annotations

import importlib.util

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from grpo_policies import engine, mixed_batch, tiny

from spade_trainers.grpo.metrics_log import MetricsLog
from spade_trainers.grpo.policy import GrpoError
from spade_trainers.grpo.settings import GrpoSettings
from spade_trainers.grpo.trainer import make

KEY = "0123456789abcdef" * 2 + "deadbeef"


def contents(folder) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def test_nothing_is_written_without_being_asked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = MetricsLog(GrpoSettings())
    log.write(0, {"agent/reward": 0.5})
    log.close()
    MetricsLog(GrpoSettings(tensorboard="board", wandb="project"), writes=False).write(0, {"agent/reward": 0.5})
    assert contents(tmp_path) == {}


def test_tensorboard_shows_metrics_by_rollout(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log = MetricsLog(GrpoSettings(tensorboard=str(tmp_path)))
    log.write(3, {"agent/reward": 0.5})
    log.write(4, {"agent/reward": 0.75})
    log.close()
    events = EventAccumulator(str(tmp_path)).Reload().Scalars("agent/reward")
    assert [(event.step, event.value) for event in events] == [(3, 0.5), (4, 0.75)]


@pytest.mark.filterwarnings("default")  # those of the package itself
def test_weights_and_biases_works_offline_and_no_key_is_kept(tmp_path, monkeypatch):
    """A real run in offline mode; a connection would be refused."""
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    model = tiny()
    options = {"wandb": "spade", "wandb_folder": str(tmp_path), "faults_folder": str(tmp_path / "faults"), "kl": 0.125}
    trainer = make(engine(model), options)
    metrics = trainer.update(mixed_batch(model))
    trainer._log.close()
    wandb.teardown()  # its own process writes
    held = contents(tmp_path)
    (run,) = [data for name, data in held.items() if name.endswith(".wandb")]
    assert b"offline-run-" in "".join(held).encode()
    for name in ("agent/reward", "designer/advantage_std", "gradient_norm"):
        assert name.encode() in run
        assert repr(metrics[name]).encode() in run
    assert b"0.125" in run
    assert str(tmp_path / "faults").encode() not in run
    assert all(KEY.encode() not in data for data in held.values())


@pytest.mark.parametrize("package", ["tensorboard", "wandb"])
def test_a_missing_package_names_the_command(package):
    if importlib.util.find_spec(package):
        pytest.skip(f"{package} is installed")
    with pytest.raises(GrpoError, match=rf"the setting {package} needs its package .*: pip install"):
        MetricsLog(GrpoSettings(**{package: "x"}))


def test_a_mode_that_there_is_not_is_refused():
    from spade_gym.selfplay.settings_table import RecipeError

    with pytest.raises(RecipeError, match="wandb_mode"):
        GrpoSettings.read({"wandb": "x", "wandb_mode": "loud"})
