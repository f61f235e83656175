"""What ``test_skyrl_contract.py`` runs in a process of its own: the bridge against SkyRL's own types and functions."""

from __future__ import annotations

import asyncio
import sys
import typing

import typing_extensions

if sys.version_info < (3, 12):
    # pydantic refuses typing.TypedDict there, which skyrl 0.3.0 uses although it says that it runs on 3.11.
    typing.TypedDict = typing_extensions.TypedDict

try:
    from skyrl.backends.skyrl_train.inference_servers.base import InferenceEngineInput
    from skyrl.backends.skyrl_train.utils import ppo_utils
    from skyrl.train.config import SkyRLTrainConfig
    from skyrl.train.dataset.preprocess import convert_prompts_responses_to_batch_tensors
    from skyrl.train.generators.base import BatchMetadata, GeneratorInterface, GeneratorOutput, TrajectoryID
    from skyrl.train.generators.utils import get_metrics_from_generator_output, prepare_generator_input
    from skyrl.train.utils.trainer_utils import validate_generator_output
except ImportError as error:
    print(f"SkyRL cannot be imported here: {error}")
    sys.exit(77)

import torch
from trainers.skyrl_bridge.fake_engines import Engines, Tokenizer, batch_of

from spade_gym.rollout.player_settings import PlayerSettings
from spade_gym.selfplay.recipe_file import names, read_recipe
from spade_trainers.skyrl_bridge.advantages import NAME, register
from spade_trainers.skyrl_bridge.generator import SpadeGenerator
from spade_trainers.skyrl_bridge.overrides import overrides_of


def configs() -> SkyRLTrainConfig:
    """SkyRL reads every paper recipe, and understands what it reads."""
    for name in names():
        if name.startswith("paper-"):
            config = SkyRLTrainConfig.from_cli_overrides(overrides_of(read_recipe(name)))
            assert config.trainer.algorithm.advantage_estimator == NAME
            assert config.generator.inference_engine.engine_init_kwargs == {"logprobs_mode": "processed_logprobs"}
            assert config.trainer.policy.optimizer_config.adam_betas == [0.9, 0.98]
            assert config.generator.n_samples_per_prompt == read_recipe(name).cycle.plays
            assert config.trainer.algorithm.off_policy_correction.token_tis_ratio_clip_high == 2.0
            assert config.trainer.algorithm.loss_reduction in ("prompt_mean", "token_mean")
    return config


def batch(config: SkyRLTrainConfig) -> tuple[dict, list[str]]:
    """What SkyRL's trainer would ask for."""
    made = batch_of(ids=TrajectoryID, meta=BatchMetadata)
    rows = [
        {"prompt": prompt, "env_class": "spade", "env_extras": extras, "uid": str(number)}
        for number, (prompt, extras) in enumerate(zip(made["prompts"][::4], made["env_extras"][::4], strict=True))
    ]
    params = {
        "max_tokens": 64,
        "temperature": 0.6,
        "top_p": 0.95,
        "top_k": 20,
        "min_p": 0.0,
        "logprobs": 1,
        "stop": None,
    }
    return prepare_generator_input(rows, 4, params, config.environment.env_class, "train", 7)


def check(engines: Engines, given: dict, uids: list[str], config: SkyRLTrainConfig, *, step_wise: bool) -> None:
    generator = SpadeGenerator(
        engines, engines.tokenizer, PlayerSettings(max_turns=2), step_wise=step_wise, isolation="L1"
    )
    GeneratorInterface.register(SpadeGenerator)
    assert isinstance(generator, GeneratorInterface)
    output: GeneratorOutput = asyncio.run(generator.generate(given))
    assert set(output) == set(GeneratorOutput.__annotations__)
    assert all(set(one) - {"model"} == set(InferenceEngineInput.__annotations__) for one in engines.inputs)
    validate_generator_output(len(given["prompts"]), output, step_wise=step_wise)
    if step_wise:
        uids = [one.instance_id for one in output["trajectory_ids"]]
    metrics = get_metrics_from_generator_output(output, uids)
    assert abs(metrics["avg_score"]) <= 1
    sequences, attention, responses, rewards, masks, logprobs, _ = convert_prompts_responses_to_batch_tensors(
        engines.tokenizer, output["prompt_token_ids"], output["response_ids"], output["rewards"], output["loss_masks"],
        output["rollout_logprobs"],
    )  # fmt: skip
    assert sequences.shape == attention.shape
    assert rewards.shape == masks.shape == logprobs.shape == responses.shape
    if step_wise:
        rewards, responses = rewards[output["is_last_step"]], torch.ones_like(responses[output["is_last_step"]])
        uids = [uid for uid, last in zip(uids, output["is_last_step"], strict=True) if last]
    advantages, _ = ppo_utils.compute_advantages_and_returns(
        token_level_rewards=rewards, response_mask=responses.float(), index=uids, adv_estimator=NAME,
        config=config.trainer.algorithm, grpo_norm_by_std=True,
    )  # fmt: skip
    assert advantages.shape == rewards.shape
    column = torch.tensor([row[row != 0][0] if row.any() else 0.0 for row in advantages])
    assert column.any()
    for uid in set(uids):
        assert abs(float(column[[other == uid for other in uids]].sum())) < 1e-4


def main() -> None:
    register()
    register()
    config = configs()
    given, uids = batch(config)
    check(Engines(Tokenizer(), fails_at=3), given, uids, config, step_wise=False)
    check(Engines(Tokenizer(strips_thinking=True), thinks=True, fails_at=3), given, uids, config, step_wise=True)
    print("kept")


if __name__ == "__main__":
    main()
