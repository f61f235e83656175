"""PPO and DQN in the self-play cycle: the model that plays, the trainer that learns from its plays."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("stable_baselines3", reason="Stable-Baselines3 is not installed (extra sb3)")

from lamps import lamps

from spade_gym.models.base import Completion, Message, ModelError, ModelRequest, Sampling
from spade_gym.prompt_folder import prompt_folder
from spade_gym.rollout.play import Play, PlayOrder
from spade_gym.rollout.player_settings import PlayerSettings
from spade_gym.rollout.rollout import play_all
from spade_gym.selfplay.null_trainer import NullTrainer
from spade_gym.selfplay.recipe_file import read_recipe
from spade_gym.selfplay.run import open_run
from spade_gym.selfplay.run_store import RunStore
from spade_gym.selfplay.selfplay import selfplay
from spade_gym.selfplay.settings_table import RecipeError
from spade_gym.selfplay.trainer import Trajectory, UpdateBatch
from spade_gym.testing import check_language_model, check_trainer
from spade_trainers.sb3.cycle_trainer import Sb3Error, Sb3Trainer, make
from spade_trainers.sb3.policy_model import PolicyModel, open_policy
from spade_trainers.sb3.steps import rewards_of, steps_of

COMMANDS = ("press red", "press green", "press blue")
BOXES = tuple(rf"\boxed{{{command}}}" for command in COMMANDS)
ALL = Sampling(max_tokens=8, temperature=1.0, top_p=1.0, top_k=0)
PLAYER = PlayerSettings(sampling=ALL, prompts=prompt_folder("bare", "player"))
BOTH = pytest.mark.parametrize("algorithm", ["ppo", "dqn"])


def model(algorithm: str = "ppo", **changes: Any) -> PolicyModel:
    return PolicyModel(algorithm, **{"commands": COMMANDS, "num_features": 64, "layers": (16,), **changes})


def played(player: PolicyModel, count: int = 6, *, rollout: int = 0) -> list[Play]:
    orders = [
        PlayOrder(f"play/{rollout}/0/plain/{n}", lamps(), seed=n, sampling_seed=100 * rollout + n) for n in range(count)
    ]
    return play_all(orders, player, settings=PLAYER)


def batch_of(plays: list[Play], *, rollout: int = 0, temperature: float = 1.0) -> UpdateBatch:
    agent = [Trajectory(play.key, "agent", "0/0", play.total, 0.0, (), rollout, temperature) for play in plays]
    return UpdateBatch(rollout, tuple(agent), tuple(plays))


def said(player: PolicyModel, requests: list[ModelRequest]) -> list[Completion]:
    for request in requests:
        player.submit(request)
    return player.collect()


def asked(text: str, seed: int, sampling: Sampling = ALL) -> ModelRequest:
    return ModelRequest(f"{text}/{seed}/{sampling.temperature}", (Message("user", text),), sampling, seed)


# ---- playing


@BOTH
def test_it_keeps_the_promises_of_a_language_model(algorithm: str) -> None:
    check_language_model(model(algorithm))


def test_commands_are_drawn_as_the_network_has_them() -> None:
    player = model()
    player.policy.action_net.bias.data[1] = 5.0
    texts = [completion.text for completion in said(player, [asked("a lamp", seed) for seed in range(60)])]
    assert texts.count(BOXES[1]) > 50
    assert said(player, [asked("a lamp", 3, dataclasses.replace(ALL, temperature=0.0))])[0].text == BOXES[1]
    assert not player.was_narrowed
    said(player, [asked("a lamp", 3, dataclasses.replace(ALL, top_k=1))])
    assert player.was_narrowed


def test_dqn_explores_as_often_as_it_is_told() -> None:
    player = model("dqn")
    drawn = {completion.text for completion in said(player, [asked("a lamp", seed) for seed in range(60)])}
    assert drawn == set(BOXES)
    player.exploration = 0.0
    (only,) = {completion.text for completion in said(player, [asked("a lamp", seed) for seed in range(60)])}
    assert only in BOXES


def test_what_is_remembered_is_the_models_choice() -> None:
    short, long = model(), model(history=2, keep_first=True)
    texts = ["red", "green", "blue"]
    assert short.encoded(texts).shape == (3, 64)
    rows = long.encoded(texts)
    assert rows.shape == (3, 192)
    first, second, third = short.encoded(["red"])[0], short.encoded(["green"])[0], short.encoded(["blue"])[0]
    assert np.array_equal(rows[0], np.concatenate([np.zeros(64), first, first]))
    assert np.array_equal(rows[2], np.concatenate([second, third, first]))


@pytest.mark.parametrize(
    ("messages", "told"),
    [
        ((Message("user", "a"), Message("assistant", "I look."), Message("user", "b")), 'agent.prompts = "bare"'),
        ((Message("user", "a"), Message("assistant", BOXES[0]), Message("tool", "b")), "plays games"),
    ],
)
def test_what_is_no_play_of_a_game_is_refused(messages: tuple[Message, ...], told: str) -> None:
    with pytest.raises(ModelError, match=told):
        model().submit(ModelRequest("k", messages, ALL, 0))


@pytest.mark.parametrize(
    ("argument", "settings", "told"),
    [
        ("sac", {"commands": ["a"]}, "ppo or dqn, got 'sac'"),
        ("ppo", {}, "needs its commands"),
        ("ppo", {"commands": []}, "at least one command"),
    ],
)
def test_bad_models_are_refused(argument: str, settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ModelError, match=told):
        open_policy(argument, **settings)


# ---- what plays are to a policy


def test_steps_are_those_of_the_plays() -> None:
    player = model()
    plays = played(player, 3)
    steps = steps_of(plays, player)
    assert steps is not None
    lengths = [len(play.turns) for play in plays]
    assert len(steps.actions) == sum(lengths)
    assert [BOXES[place] for place in steps.actions] == [turn.action for play in plays for turn in play.turns]
    assert np.flatnonzero(steps.starts).tolist() == np.cumsum([0, *lengths[:-1]]).tolist()
    assert np.flatnonzero(steps.ends).tolist() == (np.cumsum(lengths) - 1).tolist()
    assert np.array_equal(steps.following[0], steps.observations[1])
    assert not steps.following[steps.ends].any()
    shown = player.encoded([plays[0].turns[0].observation])
    assert np.array_equal(steps.observations[:1], shown)
    assert steps_of([], player) is None


def test_rewards_add_up_to_the_return_by_every_rule() -> None:
    (play,) = played(model(), 1)
    assert rewards_of(play) == [turn.reward for turn in play.turns]
    last = dataclasses.replace(play, total=0.75)
    assert rewards_of(last) == [*(0.0 for _ in play.turns[1:]), 0.75]


def test_plays_of_another_model_are_refused() -> None:
    player = model()
    (play,) = played(player, 1)
    turn = dataclasses.replace(play.turns[0], completion="Well.")
    with pytest.raises(ValueError, match=r"play/0/0/plain/0: the reply 'Well.' is no command"):
        steps_of([dataclasses.replace(play, turns=(turn,))], player)


# ---- learning


@BOTH
def test_it_keeps_the_promises_of_a_trainer(algorithm: str) -> None:
    (play, *_) = played(model(algorithm), 1)
    check_trainer(lambda: make(model(algorithm), {"batch_size": 4, "gradient_steps": 3}), play=play)


@BOTH
def test_a_resumed_trainer_ends_with_the_same_weights_bit_for_bit(algorithm: str, tmp_path: Path) -> None:
    def trainer() -> tuple[PolicyModel, Sb3Trainer]:
        player = model(algorithm)
        return player, make(player, {"batch_size": 8, "gradient_steps": 5, "exploration_rollouts": 3})

    player, whole = trainer()
    batches = []
    for number in range(4):
        batches.append(batch_of(played(player, rollout=number), rollout=number))
        whole.update(batches[-1])
        if number == 1:
            whole.save(tmp_path)
    other, resumed = trainer()
    resumed.load(tmp_path)
    assert other.policy_version == 2
    assert batch_of(played(other, rollout=2), rollout=2).trajectories == batches[2].trajectories  # it plays the same
    for batch in batches[2:]:
        resumed.update(batch)
    assert other.exploration == player.exploration
    for name, value in player.policy.state_dict().items():
        assert bool((other.policy.state_dict()[name] == value).all()), name


def test_global_generators_stay_as_they_were() -> None:
    import random

    import torch

    def state() -> tuple[object, object, object]:
        return random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # noqa: NPY002

    before = state()
    player = model()
    make(player, {"batch_size": 4}).update(batch_of(played(player)))
    assert state() == before


@pytest.mark.parametrize(("temperature", "narrowed"), [(0.6, False), (1.0, True)])
def test_ppo_refuses_plays_that_are_not_its_own(temperature: float, narrowed: bool) -> None:
    player = model()
    trainer = make(player, {})
    batch = batch_of(played(player), temperature=temperature)
    player.was_narrowed = narrowed
    with pytest.raises(Sb3Error, match=r"agent.temperature = 1.0, agent.top_p = 1.0"):
        trainer.update(batch)


def test_checkpoints_of_others_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Sb3Error, match="holds no checkpoint"):
        make(model(), {}).load(tmp_path)
    make(model(), {}).save(tmp_path)
    with pytest.raises(Sb3Error, match="not of sb3:dqn's"):
        make(model("dqn"), {}).load(tmp_path)
    with pytest.raises(Sb3Error, match="of another policy: "):
        make(model(layers=(8,)), {}).load(tmp_path)
    (tmp_path / "sb3.npz").write_bytes(b"junk")
    with pytest.raises(Sb3Error, match="cannot be read"):
        make(model(), {}).load(tmp_path)


def test_what_dqn_remembers_must_fit(tmp_path: Path) -> None:
    player = model("dqn")
    trainer = make(player, {"gradient_steps": 1})
    trainer.update(batch_of(played(player)))
    trainer.save(tmp_path)
    with pytest.raises(Sb3Error, match="there is room for 5: buffer_steps"):
        make(model("dqn"), {"buffer_steps": 5}).load(tmp_path)


def test_a_checkpoint_that_would_run_code_is_not_run(tmp_path: Path) -> None:
    make(model(), {}).save(tmp_path)
    np.savez(tmp_path / "sb3.npz", **{"policy/x": np.array([Trap(str(tmp_path / "ran"))], dtype=object)})  # type: ignore[arg-type]
    with pytest.raises(Sb3Error, match="cannot be read"):
        make(model(), {}).load(tmp_path)
    assert not (tmp_path / "ran").exists()


class Trap:
    """Touches a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[str, str]]:
        return open, (self.path, "w")


def test_it_trains_its_own_models_only() -> None:
    class Other:
        name = "other"

    with pytest.raises(Sb3Error, match=r'models\.agent = "sb3:ppo"'):
        make(Other(), {})  # type: ignore[arg-type]
    with pytest.raises(RecipeError, match="epochs"):
        make(model(), {"epoch": 3})


# ---- the cycle


def recipe(*overrides: str) -> Any:
    return read_recipe("sb3-demo", list(overrides))


def shares(folder: Path) -> list[float]:
    with RunStore(folder, read_only=True) as store:
        rows = store.rows("SELECT rollout, avg(won) AS share FROM plays GROUP BY rollout ORDER BY rollout")
    return [row["share"] for row in rows]


ONE_GAME = (
    "designer.name=registry:SignalBox,", "cycle.fixed_programs=1", "cycle.environments=1", "cycle.plays=48",
    'cycle.skills=["Logical Deduction"]', "cycle.skills_per_regeneration=1",
)  # fmt: skip


def test_a_cycle_goes_on_after_its_checkpoint_as_if_nothing_had_happened(tmp_path: Path) -> None:
    small = recipe(*ONE_GAME, "cycle.plays=4", "cycle.rollouts=4", "cycle.regenerate_every=4", "trainer.save_every=2")
    for name in ("whole", "half"):
        with open_run(small, tmp_path / name) as run:
            if name == "half":
                object.__setattr__(run, "trainer", Dying(run.trainer))
                with pytest.raises(KeyboardInterrupt):
                    selfplay(run)
            else:
                selfplay(run)
    with open_run(small, tmp_path / "half") as run:
        selfplay(run)
    assert weights(tmp_path / "half") == weights(tmp_path / "whole")


class Dying(NullTrainer):
    """Dies in the third update."""

    def __init__(self, trainer: Any) -> None:
        super().__init__()
        self._trainer = trainer
        self.load, self.save = trainer.load, trainer.save  # type: ignore[method-assign]

    def update(self, batch: UpdateBatch) -> Any:
        if batch.rollout == 3:
            raise KeyboardInterrupt
        return self._trainer.update(batch)


def weights(folder: Path) -> dict[str, list[Any]]:
    with np.load(folder / "checkpoints" / "000003" / "sb3.npz") as held:
        return {name: held[name].tolist() for name in held.files}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_demo_learns_three_games_with_ppo(tmp_path: Path) -> None:
    with open_run(recipe(), tmp_path / "run") as run:
        selfplay(run)
    found = shares(tmp_path / "run")
    assert len(found) == 60
    assert sum(found[:5]) / 5 <= 0.05
    assert sum(found[-5:]) / 5 >= 0.6


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_game_is_learnt_with_dqn(tmp_path: Path) -> None:
    told = (
        "models.agent=sb3:dqn",
        "trainer.options.learning_rate=3e-4",
        "cycle.rollouts=40",
        "cycle.regenerate_every=40",
    )
    with open_run(recipe(*ONE_GAME, *told), tmp_path / "run") as run:
        selfplay(run)
    found = shares(tmp_path / "run")
    assert sum(found[:5]) / 5 <= 0.05
    assert sum(found[-10:]) / 10 >= 0.4
