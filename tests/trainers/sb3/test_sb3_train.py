from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("stable_baselines3", reason="Stable-Baselines3 is not installed (extra sb3)")
pytest.importorskip("tensorboard", reason="TensorBoard is not installed (extra sb3)")

from lamps import lamps

from spade_gym.errors import SpadeError
from spade_gym.evaluation.unseen_seeds import FIRST_UNSEEN_SEED, unseen_seeds
from spade_gym.programs.program import Program
from spade_trainers.sb3.agent import Agent
from spade_trainers.sb3.evaluate import evaluate, uniform
from spade_trainers.sb3.learn import first_training_seed
from spade_trainers.sb3.train import train


def quick(program: Program, out, **options):
    settings = {"steps": 64, "num_envs": 4, "eval_episodes": 6, "num_features": 16, "progress": False, **options}
    return train("spade/Program-v0", out=out, env_kwargs={"program": program}, **settings)


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_writes_model_settings_report_and_logs(tmp_path, algo):
    lines: list[str] = []
    report = quick(lamps(), tmp_path, algo=algo, notify=lines.append)
    assert report.before.plays == report.after.plays == report.random.plays == 6
    assert report.steps == 64
    assert json.loads((tmp_path / "report.json").read_text())["after"]["plays"] == 6
    assert list((tmp_path / "tensorboard").glob("*/events.out.tfevents.*"))
    assert [line.split(":")[0].split(" steps")[0] for line in lines] == [
        "spade/Program-v0",
        "uniform random player",
        "before training",
        "after 64",
    ]


def test_a_loaded_agent_plays_the_same(tmp_path):
    program = lamps()
    report = quick(program, tmp_path)
    agent = Agent.load(tmp_path)

    def choose(observations, masks):
        return agent.choose(observations, masks)

    wins, fault = evaluate(
        choose, lambda count: agent.settings.environments(count, env_kwargs={"program": program}), unseen_seeds(6)
    )
    assert wins == report.after
    assert fault == ""


def test_same_seed_same_result(tmp_path):
    first, second = (quick(lamps(), tmp_path / name, seed=3) for name in "ab")
    weights = [Agent.load(tmp_path / name).model.get_parameters()["policy"] for name in "ab"]
    assert first.after == second.after
    assert all((weights[0][key] == weights[1][key]).all() for key in weights[0])


def test_an_agent_refuses_a_changed_program(tmp_path):
    quick(lamps(), tmp_path)
    settings = Agent.load(tmp_path).settings
    with pytest.raises(SpadeError, match="this agent was made for the program"):
        settings.environments(1, env_kwargs={"program": lamps(faults=True)})


def test_training_and_evaluation_share_no_seed():
    assert min(unseen_seeds(100)) == FIRST_UNSEEN_SEED == 2**31
    for seed in range(50):
        first = first_training_seed(seed, 64)
        assert 0 <= first < first + 63 < FIRST_UNSEEN_SEED


def test_faulty_plays_are_counted_apart(tmp_path):
    # A player that always presses red fails at turn 2; it has lost nothing by that.
    report = quick(lamps(faults=True), tmp_path, steps=256, commands=["press red", "press green"])
    assert report.faulty_training_plays > 0
    assert report.random.faulty > 0
    assert report.random.plays + report.random.faulty == 6


def test_a_program_that_always_fails_is_refused(tmp_path):
    with pytest.raises(SpadeError, match=r"fails in every play.*a lamp broke"):
        quick(lamps(faults=True), tmp_path, commands=["press red"])


@pytest.mark.parametrize(
    ("env_id", "message"),
    [
        ("spade/LarderFiles-v0", "LarderFiles is a tool-use program"),
        ("spade/BlackBox-v0", r"more than 512 commands.*Pass a shorter list"),
        ("CartPole-v1", "CartPole-v1 has the observations Box.*not texts"),
        ("spade/Nope-v0", r"no environment 'spade/Nope-v0'.*spade-gym list"),
    ],
)
def test_environments_that_do_not_fit_are_refused_early(tmp_path, env_id, message):
    with pytest.raises(SpadeError, match=message):
        train(env_id, steps=10, out=tmp_path)
    assert not list(tmp_path.iterdir())


def test_bad_options_are_named(tmp_path):
    with pytest.raises(SpadeError, match="no algorithm 'sac'; the algorithms are ppo, dqn, maskable_ppo"):
        quick(lamps(), tmp_path, algo="sac")
    with pytest.raises(ValueError, match="steps must be a positive whole number, got 0"):
        quick(lamps(), tmp_path, steps=0)


def test_a_folder_without_an_agent_is_named(tmp_path):
    with pytest.raises(SpadeError, match="holds no trained agent"):
        Agent.load(tmp_path)


def test_uniform_player_keeps_to_the_masks():
    masks = np.array([[True, False, True], [False, True, False]])
    choose = uniform(np.random.default_rng(0))
    drawn = np.array([choose(np.zeros((2, 1)), masks) for _ in range(200)])
    assert set(drawn[:, 0]) == {0, 2}
    assert set(drawn[:, 1]) == {1}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["AppleCatch", "RaftBalance", "SignalBox", "BeaconWalk", "ParcelChutes"])
def test_ppo_learns_bundled_games(tmp_path, name):
    report = train(f"spade/{name}-v0", steps=60_000, out=tmp_path, progress=False)
    assert report.random.rate <= 0.15
    assert report.before.rate <= 0.15
    assert report.after.rate >= 0.8
