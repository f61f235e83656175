"""The bridge to SkyRL with fakes of its engines; ``test_skyrl_contract.py`` checks the same against its own code."""

from __future__ import annotations

import asyncio
import json

import numpy as np
import pytest
from rollout.games import guess
from trainers.skyrl_bridge.fake_engines import Engines, Tokenizer, batch_of

from spade_gym.errors import ManifestError
from spade_gym.models.base import ModelError
from spade_gym.rollout.player_settings import PlayerSettings
from spade_gym.selfplay.recipe_file import names, read_recipe
from spade_trainers.skyrl_bridge.advantages import STAND_IN, spade_advantages, stand_in_rewards
from spade_trainers.skyrl_bridge.dataset import DatasetError, program_of, programs_of, row_of, write_dataset
from spade_trainers.skyrl_bridge.generator import SpadeGenerator
from spade_trainers.skyrl_bridge.overrides import overrides_of
from spade_trainers.skyrl_bridge.train import BridgeError, parted

PLAYER = PlayerSettings(max_turns=2)


def played(engines: Engines, batch, **settings) -> dict:
    generator = SpadeGenerator(engines, engines.tokenizer, PLAYER, isolation="L1", **settings)
    return asyncio.run(generator.generate(batch))


def test_rows_are_the_plays_of_the_prompts_in_their_order_token_by_token():
    tokenizer, batch = Tokenizer(), batch_of()
    engines = Engines(tokenizer)
    output = played(engines, batch, model_name="policy")
    rows = zip(
        output["prompt_token_ids"], output["response_ids"], output["loss_masks"], output["rewards"],
        output["rollout_logprobs"], strict=True,
    )  # fmt: skip
    won = []
    for prompt, response, mask, rewards, logprobs in rows:
        assert len(response) == len(mask) == len(rewards) == len(logprobs)
        said = tokenizer.decode(token for token, sampled in zip(response, mask, strict=True) if sampled)
        assert set(said.replace("<|im_end|>", "")) <= set("\\boxed{}0123456789")
        assert tokenizer.decode(prompt).endswith("<|im_start|>assistant\n")
        assert mask[0] == mask[-1] == 1
        assert not any(rewards[:-1])
        assert [number for number, sampled in zip(logprobs, mask, strict=True) if not sampled] == [0.0] * mask.count(0)
        goal = tokenizer.decode(prompt).split("Guess ")[-1][0]
        won.append(rewards[-1])
        assert (f"{{{goal}}}" in said) == (rewards[-1] == 1.0)
    assert set(won) == {0.0, 1.0}
    assert [one.instance_id for one in output["trajectory_ids"]] == ["0"] * 4 + ["1"] * 4 + ["2"] * 4
    assert output["rollout_metrics"]["spade/win_rate"] == pytest.approx(np.mean(won))
    assert len(set(engines.finished)) == 12
    assert {(each["model"], each["cache_salt"]) for each in engines.inputs} == {("policy", "policy@4")}
    again = played(Engines(tokenizer), batch)
    assert again["response_ids"] == output["response_ids"]
    assert played(Engines(tokenizer), batch_of(step=8))["response_ids"] != output["response_ids"]


def test_a_play_that_failed_is_a_stand_in_and_changes_no_advantage():
    torch = pytest.importorskip("torch")
    engines = Engines(Tokenizer(), fails_at=2)
    output = played(engines, batch_of(2, 5))
    (failed,) = [row for row, rewards in enumerate(output["rewards"]) if STAND_IN in rewards]
    assert output["loss_masks"][failed] == [0, 0]
    group = range(5) if failed < 5 else range(5, 10)
    valid = [output["rewards"][row][-1] for row in group if row != failed]
    assert output["rewards"][failed] == [np.mean(valid) + 2, -2]
    width = max(map(len, output["rewards"]))
    rewards = torch.tensor([[*row, *[0.0] * (width - len(row))] for row in output["rewards"]])
    mask = torch.tensor([[1.0] * len(row) + [0.0] * (width - len(row)) for row in output["rewards"]])
    index = [one.instance_id for one in output["trajectory_ids"]]
    advantages, returns = spade_advantages(rewards, mask, index)
    assert advantages is returns
    assert not advantages[failed].any()
    expected = (np.array(valid) - np.mean(valid)) / (np.std(valid) + 1e-8)
    found = [float(advantages[row, 0]) for row in group if row != failed]
    assert found == pytest.approx(list(expected) if np.std(valid) else [0.0] * 4)
    assert torch.equal(advantages != 0, (advantages[:, :1] != 0) & (mask > 0))


def test_advantages_by_hand():
    torch = pytest.importorskip("torch")
    rewards = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [*stand_in_rewards(0.5), 0.0]])
    mask = torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0]])
    found, _ = spade_advantages(rewards, mask, ["a", "a", "b", "a"])
    assert found.tolist() == [[1.0, 1.0, 0.0], [-1.0, -1.0, -1.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    found, _ = spade_advantages(rewards, mask, np.array(["a", "a", "b", "a"]), grpo_norm_by_std=False)
    assert found[:, 0].tolist() == [0.5, -0.5, 0.0, 0.0]


def test_chats_of_several_sequences_need_step_wise_trajectories():
    engines = Engines(Tokenizer(strips_thinking=True), thinks=True)
    with pytest.raises(ModelError, match="step_wise_trajectories=true"):
        played(engines, batch_of())
    output = played(Engines(Tokenizer(strips_thinking=True), thinks=True), batch_of(), step_wise=True)
    names = [(one.instance_id, one.repetition_id) for one in output["trajectory_ids"]]
    assert len(names) > len(set(names)) == 12
    lasts = [index for index, last in enumerate(output["is_last_step"]) if last]
    assert [names[index] for index in lasts] == list(dict.fromkeys(names))
    assert all(not any(rewards) for index, rewards in enumerate(output["rewards"]) if index not in lasts)


def test_engines_that_answer_nothing_stop_the_training():
    class Broken(Engines):
        async def generate(self, input_batch, model=None):
            raise ConnectionError("no engine")

    with pytest.raises(ModelError, match="all 12 plays were aborted, the last with: SkyRL's engine failed"):
        played(Broken(Tokenizer()), batch_of())


def test_a_data_set_holds_whole_programs(tmp_path):
    program = guess(name="Guess")
    assert write_dataset([program, guess(name="Other")], tmp_path / "train.jsonl", seed=5) == 2
    first, second = map(json.loads, (tmp_path / "train.jsonl").read_text().splitlines())
    assert program_of(first) == program
    assert (first["seed"], second["seed"], first["env_class"]) == (5, 6, "spade")
    with pytest.raises(FileExistsError):
        write_dataset([program], tmp_path / "train.jsonl")
    with pytest.raises(ManifestError, match="digest"):
        program_of({**first, "source": first["source"] + "\n"})
    with pytest.raises(DatasetError, match="lacks the column 'source'"):
        program_of({"seed": 1})
    with pytest.raises(DatasetError, match="at least one"):
        write_dataset([], tmp_path / "none.jsonl")
    assert row_of(program, seed=1)["prompt"] == [{"role": "user", "content": "Play Guess."}]


def test_programs_come_from_a_pool_or_the_last_pool_of_a_run(tmp_path):
    from selfplay.small_runs import small_recipe, small_run

    from spade_gym.pool import Pool
    from spade_gym.selfplay.selfplay import selfplay

    Pool(tmp_path / "pool").add(guess(name="Guess"))
    assert programs_of(tmp_path / "pool") == [guess(name="Guess")]
    with small_run(tmp_path / "run", small_recipe(tmp_path)) as run:
        with pytest.raises(DatasetError, match="no pool yet"):
            programs_of(tmp_path / "run")
        selfplay(run)
        expected = [row["digest"] for row in run.store.rows("SELECT * FROM pools WHERE epoch = 1 ORDER BY environment")]
    assert [program.digest for program in programs_of(tmp_path / "run")] == expected
    assert write_dataset(programs_of(tmp_path / "run"), tmp_path / "run.jsonl") == len(expected) == 3


def test_recipes_in_words_of_skyrl():
    told = dict(text.split("=", 1) for text in overrides_of(read_recipe("paper-games-8b")))
    assert told["trainer.train_batch_size"] == "24"
    assert told["generator.n_samples_per_prompt"] == "16"
    assert told["trainer.algorithm.use_kl_loss"] == "true"
    assert told["trainer.algorithm.kl_loss_coef"] == "0.005"
    assert told["trainer.algorithm.eps_clip_high"] == "0.28"
    assert told["trainer.algorithm.loss_reduction"] == "prompt_mean"
    assert told["trainer.policy.optimizer_config.adam_betas"] == "[0.9,0.98]"
    assert told["trainer.policy.model.path"] == "Qwen/Qwen3-8B"
    assert told["generator.step_wise_trajectories"] == "true"
    assert (
        dict(text.split("=", 1) for text in overrides_of(read_recipe("paper-games-4b")))[
            "trainer.algorithm.use_kl_loss"
        ]
        == "false"
    )
    for name in names():
        if name.startswith("paper-"):
            assert overrides_of(read_recipe(name))
    with pytest.raises(ValueError, match="trainer 'grpo'"):
        overrides_of(read_recipe("paper-games-8b", ["trainer.name=null", "trainer.options={}"]))


def test_arguments_of_the_training_command():
    recipe, isolation, rest = parted(["spade.recipe=paper-games-4b", "spade.isolation=L2", "trainer.seed=3"])
    assert (isolation, rest[-1]) == ("L2", "trainer.seed=3")
    assert recipe.cycle.plays == 16
    with pytest.raises(BridgeError, match=r"spade\.recipe=paper-games-8b"):
        parted(["trainer.seed=3"])
    with pytest.raises(BridgeError, match=r"no argument spade\.recipes"):
        parted(["spade.recipes=x"])
