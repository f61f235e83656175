"""A recipe in SkyRL's words: what its agent's half is told, as overrides of SkyRL's configuration."""

from __future__ import annotations

from typing import Any

from spade_gym.selfplay.recipe import Recipe
from spade_trainers.grpo.settings import Aggregation, GrpoSettings
from spade_trainers.skyrl_bridge.advantages import NAME
from spade_trainers.skyrl_bridge.dataset import ENV_CLASS

#: SkyRL's words for what a token counts.
_REDUCTION: dict[Aggregation, str] = {
    "token": "token_mean",
    "sequence": "sequence_mean",
    "fixed": "seq_mean_token_sum_norm",
    "group": "prompt_mean",
}


def overrides_of(recipe: Recipe) -> list[str]:
    """Return ``key=value`` texts for SkyRL's command line.

    Args:
        recipe: Its trainer must be ``grpo``.

    Raises:
        RecipeError: A setting of its trainer is unknown.
        ValueError: Its trainer is another.
    """
    if recipe.trainer.name != "grpo":
        raise ValueError(f"only a recipe with the trainer 'grpo' can be said to SkyRL, got {recipe.trainer.name!r}")
    told, agent, cycle = GrpoSettings.read(recipe.trainer.options), recipe.agent, recipe.cycle
    optimiser, algorithm = "trainer.policy.optimizer_config", "trainer.algorithm"
    sampling = "generator.sampling_params"
    values: dict[str, Any] = {
        "environment.env_class": ENV_CLASS,
        "trainer.max_training_steps": cycle.rollouts,
        "trainer.train_batch_size": cycle.environments,
        "trainer.policy_mini_batch_size": max(1, cycle.environments // told.minibatches),
        "trainer.update_epochs_per_batch": told.epochs,
        "generator.n_samples_per_prompt": cycle.plays,
        "generator.max_turns": agent.max_turns,
        "generator.step_wise_trajectories": bool(agent.thinking),
        f"{sampling}.max_generate_length": agent.turn_tokens,
        f"{sampling}.temperature": agent.temperature,
        f"{sampling}.top_p": agent.top_p,
        f"{sampling}.top_k": agent.top_k or -1,
        f"{sampling}.logprobs": 1,
        # vLLM's own are at temperature 1; these are at the sampling temperature, after top-p and top-k
        "generator.inference_engine.engine_init_kwargs.logprobs_mode": "processed_logprobs",
        f"{optimiser}.lr": told.learning_rate,
        f"{optimiser}.adam_betas": list(told.betas),
        f"{optimiser}.weight_decay": told.weight_decay,
        f"{optimiser}.max_grad_norm": told.max_grad_norm,
        f"{algorithm}.advantage_estimator": NAME,
        f"{algorithm}.grpo_norm_by_std": agent.std,
        f"{algorithm}.policy_loss_type": "regular",
        f"{algorithm}.eps_clip_low": told.clip_low,
        f"{algorithm}.eps_clip_high": told.clip_high,
        f"{algorithm}.loss_reduction": _REDUCTION[told.aggregation],
        f"{algorithm}.use_kl_loss": told.kl > 0,
        f"{algorithm}.kl_loss_coef": told.kl,
        f"{algorithm}.kl_estimator_type": "k3",
        f"{algorithm}.use_entropy_loss": told.entropy > 0,
        f"{algorithm}.entropy_loss_coef": told.entropy,
        f"{algorithm}.off_policy_correction.tis_ratio_type": "token" if told.weight_cap else None,
        f"{algorithm}.off_policy_correction.token_tis_ratio_clip_high": told.weight_cap or 2.0,
    }
    if told.aggregation == "fixed":
        values[f"{algorithm}.max_seq_len"] = told.fixed_length
    engine, _, path = recipe.models.agent.partition(":")
    if engine in ("vllm", "transformers"):
        values["trainer.policy.model.path"] = path
    return [f"{key}={_text(value)}" for key, value in values.items()]


def _text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ",".join(map(_text, value)) + "]"
    return str(value)
