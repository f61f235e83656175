"""Plays for SkyRL: a batch of its prompts in, token ids with masks, rewards and log-probabilities out.

One row a play, in the order of the prompts. Plays whose chat is not one sequence of tokens (models that think: earlier
thoughts leave the prompt) are several samples; they need SkyRL's step-wise trajectories, one row a sample.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from spade_gym.models.base import ModelError, Sampling
from spade_gym.models.chat import ChatFormat, chat_format_of
from spade_gym.models.sample import Sample
from spade_gym.rollout.play import Play, PlayOrder
from spade_gym.rollout.player_settings import PlayerSettings
from spade_gym.rollout.rollout import play_all
from spade_gym.sandbox.base import Isolation, Limits
from spade_trainers.skyrl_bridge.advantages import stand_in_rewards
from spade_trainers.skyrl_bridge.dataset import program_of
from spade_trainers.skyrl_bridge.engine import SkyrlEngine

#: How a play ended that was cut off, in SkyRL's words.
_CUT_OFF = ("cut", "tokens", "context")


class Row(NamedTuple):
    """A sequence of SkyRL.

    Attributes:
        prompt: Token ids before the first sampled one.
        response: All from there to the last sampled one.
        mask: 1 on sampled tokens.
        rewards: Of each token of the response; the return stands at the last one.
        logprobs: Of sampled tokens when they were drawn, 0.0 elsewhere.
    """

    prompt: list[int]
    response: list[int]
    mask: list[int]
    rewards: list[float]
    logprobs: list[float]


class SpadeGenerator:
    """A ``GeneratorInterface`` of SkyRL that plays programs.

    Args:
        client: SkyRL's inference engines.
        tokenizer: Of the policy, with a chat template.
        player: How to play; SkyRL's own sampling parameters take the place of its sampling.
        step_wise: SkyRL's ``generator.step_wise_trajectories``.
        model_name: The policy's name in the engines.
        max_context: Most tokens of a prompt and its reply.
        isolation: Of the programs, as for ``Session``.
        limits: What programs may use.
        max_sessions: Most programs under way.

    Raises:
        ModelError: The tokenizer has no chat template.
    """

    def __init__(
        self,
        client: Any,
        tokenizer: Any,
        player: PlayerSettings,
        *,
        step_wise: bool = False,
        model_name: str | None = None,
        max_context: int | None = None,
        isolation: Isolation | int | str | None = None,
        limits: Limits | None = None,
        max_sessions: int = 64,
    ) -> None:
        chat_format = chat_format_of(tokenizer)
        if chat_format is None:
            raise ModelError("the policy's tokenizer has no chat template; set one, or take an instruct model")
        self._client, self._player, self._step_wise = client, player, step_wise
        self._chat_format: ChatFormat = chat_format
        self._end_id = int(tokenizer.eos_token_id)
        self._engine_told: dict[str, Any] = {"model_name": model_name, "max_context": max_context}
        self._told: dict[str, Any] = {"isolation": isolation, "limits": limits, "max_sessions": max_sessions}

    async def generate(self, input_batch: Mapping[str, Any]) -> dict[str, Any]:
        """Play a ``GeneratorInput``; return a ``GeneratorOutput``.

        Raises:
            ModelError: Every play was aborted by the engines, or a play needs step-wise trajectories.
            SandboxError: The sandbox is broken.
            SpadeError: A row holds no program.
        """
        orders = _orders(input_batch)
        told = dict(input_batch.get("sampling_params") or {})
        engine = SkyrlEngine(
            self._client, asyncio.get_running_loop(), self._chat_format, sampling_params=told, **self._engine_told
        )
        settings = dataclasses.replace(self._player, sampling=_sampling(told, self._player.sampling))

        def play() -> list[Play]:
            return play_all(
                orders, engine, settings=settings, on_play=lambda play: engine.finish(play.key), in_order=False,
                **self._told,
            )  # fmt: skip

        try:
            plays = await asyncio.to_thread(play)
        finally:
            engine.close()
        if all(play.status == "aborted" for play in plays):
            raise ModelError(f"all {len(plays)} plays were aborted, the last with: {plays[-1].fault}")
        return self._output(plays, _groups(input_batch), input_batch.get("trajectory_ids"))

    def _output(self, plays: Sequence[Play], groups: Sequence[str], ids: Sequence[Any] | None) -> dict[str, Any]:
        means = _means(plays, groups)
        rows: list[Row] = []
        owners: list[int] = []
        for number, (play, group) in enumerate(zip(plays, groups, strict=True)):
            found = self._rows(play, means.get(group, 0.0))
            rows += found
            owners += [number] * len(found)
        last = [here != after for here, after in zip(owners, [*owners[1:], None], strict=True)]
        return {
            "prompt_token_ids": [row.prompt for row in rows],
            "response_ids": [row.response for row in rows],
            "rewards": [row.rewards for row in rows],
            "loss_masks": [row.mask for row in rows],
            "stop_reasons": ["length" if plays[owner].ended in _CUT_OFF else "stop" for owner in owners],
            "rollout_metrics": _metrics(plays),
            "rollout_logprobs": [row.logprobs for row in rows],
            "trajectory_ids": None if ids is None else [ids[owner] for owner in owners],
            "trajectory_generation_times": [play.seconds for play in plays],
            "rollout_expert_indices": None,
            "is_last_step": last if self._step_wise else None,
            "env_metrics": [{"won": plays[owner].won, "status": plays[owner].status} for owner in owners],
            "pixel_values": None,
            "image_grid_thw": None,
        }

    def _rows(self, play: Play, mean: float) -> list[Row]:
        samples = [sample for sample in play.samples if any(sample.mask)] if play.status == "ok" else []
        if not samples:
            return [Row([self._end_id], [self._end_id] * 2, [0, 0], stand_in_rewards(mean), [0.0, 0.0])]
        if len(samples) > 1 and not self._step_wise:
            raise ModelError(
                f"the play {play.key!r} is {len(samples)} sequences, because the chat template leaves earlier thoughts "
                "out: set generator.step_wise_trajectories=true"
            )
        rows = [_row(sample) for sample in samples]
        rows[-1].rewards[-1] = play.total
        return rows


def _row(sample: Sample) -> Row:
    sampled = [place for place, mask in enumerate(sample.mask) if mask]
    first, end = sampled[0], sampled[-1] + 1
    return Row(
        list(sample.ids[:first]),
        list(sample.ids[first:end]),
        list(sample.mask[first:end]),
        [0.0] * (end - first),
        list(sample.logprobs[first:end]),
    )


def _orders(batch: Mapping[str, Any]) -> list[PlayOrder]:
    """One play a prompt; its seeds depend on the row's, the step of the training and the repetition alone."""
    meta, ids = batch.get("batch_metadata"), batch.get("trajectory_ids")
    evaluating = meta is None or meta.training_phase == "eval"
    step = 0 if meta is None or evaluating else int(meta.global_step)
    phase = "eval" if evaluating else "train"
    repeated: dict[int, int] = {}
    orders = []
    for number, extras in enumerate(batch["env_extras"] or ()):
        seed = int(extras["seed"])
        repetition = repeated[seed] = repeated.get(seed, -1) + 1 if ids is None else int(ids[number].repetition_id)
        words = np.random.SeedSequence([seed, step, repetition, int(evaluating)]).generate_state(2)
        key = f"{phase}/{step}/{number}/plain/{repetition}"
        orders.append(
            PlayOrder(key, program_of(extras), int(words[0]) >> 1, sampling_seed=int(words[1]) >> 1)
        )  # fmt: skip
    return orders


def _sampling(told: Mapping[str, Any], own: Sampling) -> Sampling:
    """SkyRL's sampling parameters; what they do not say is the player's own."""
    return Sampling(
        max_tokens=int(told.get("max_tokens") or own.max_tokens),
        temperature=float(told.get("temperature", own.temperature)),
        top_p=float(told.get("top_p", own.top_p)),
        top_k=max(0, int(told.get("top_k", own.top_k))),
        stop=tuple(told.get("stop") or own.stop),
    )


def _groups(batch: Mapping[str, Any]) -> list[str]:
    ids = batch.get("trajectory_ids")
    if ids is not None:
        return [str(one.instance_id) for one in ids]
    return [str(extras["seed"]) for extras in batch["env_extras"] or ()]


def _means(plays: Sequence[Play], groups: Sequence[str]) -> dict[str, float]:
    valid: dict[str, list[float]] = {}
    for play, group in zip(plays, groups, strict=True):
        if play.status == "ok":
            valid.setdefault(group, []).append(play.total)
    return {group: float(np.mean(totals)) for group, totals in valid.items()}


def _metrics(plays: Sequence[Play]) -> dict[str, float]:
    valid = [play for play in plays if play.status == "ok"]
    metrics = {"spade/faulty_share": 1 - len(valid) / len(plays)}
    if valid:
        metrics["spade/win_rate"] = float(np.mean([play.won for play in valid]))
        metrics["spade/return"] = float(np.mean([play.total for play in valid]))
        metrics["spade/turns"] = float(np.mean([play.length for play in valid]))
        metrics["spade/tokens"] = float(np.mean([play.completion_tokens for play in valid]))
        metrics["spade/cut_share"] = float(np.mean([play.ended in _CUT_OFF for play in valid]))
    return metrics
