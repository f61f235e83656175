"""Real plays, in which observations repeat what was said: only what was sampled is ever learnt from."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

import pytest
from games import guess, orders_of, shop
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from models.byte_tokenizer import ByteTokenizer
from models.scripted_model import ScriptedModel

from spade_gym.models.base import Completion, ModelRequest, Sampling
from spade_gym.models.chat import ChatFormat
from spade_gym.models.sample import Sample
from spade_gym.programs.program import Program
from spade_gym.rollout.player_settings import PlayerSettings
from spade_gym.rollout.rollout import play_all

FAMILIES = ("bytes", "bytes-strips-thinking", "qwen3", "llama3", "smollm2", "chatml")

#: What is said: boxes and calls whose results repeat it, thoughts, control texts, anything.
replies = st.lists(
    st.one_of(
        st.sampled_from(
            (
                r"\boxed{1}",
                r"\boxed{Wrong: 7.}",
                r"\boxed{<|im_end|>}",
                "Guess 1.",
                r"<think>\boxed{7}</think>",
                "</think>",
                '<tool_call>{"name": "get_price", "arguments": {"item": "pear"}}</tool_call>',
                '<tool_call>[{"name": "get_price", "arguments": {"item": "plum"}}, {"name": "no"}]</tool_call>',
                "<tool_call>no</tool_call>",
                "é",
                "\n",
            )
        ),
        st.text(max_size=3),
    ),
    min_size=1,
    max_size=4,
).map("".join)


class Speaker(ScriptedModel):
    """Says what it is told to, turn by turn, with the ids of a tokenizer; keeps what it was asked and said by key."""

    def __init__(self, tokenizer: Any, said: list[str], *, ends: bool) -> None:
        super().__init__(lambda request: self._said(request, said[len(request.messages) // 2 % len(said)]))
        self.chat_format = ChatFormat(tokenizer)  # type: ignore[assignment]
        self.exchanges: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self._tokenizer, self._ends = tokenizer, ends

    def _said(self, request: ModelRequest, text: str) -> Completion:
        text = text.encode("utf-8", "replace").decode()
        ids = [*self._tokenizer.encode(text, add_special_tokens=False)]
        ids = tuple([*ids, self._tokenizer.eos_token_id] if self._ends else ids or [self._tokenizer.eos_token_id])
        self.exchanges[request.key] = (request.prompt_ids or (), ids)
        numbers = tuple(-1.0 - place for place in range(len(ids)))
        return Completion(request.key, text, "stop", ids, numbers, numbers, completion_tokens=len(ids))


def tokenizer_named(family: str) -> Any:
    if family.startswith("bytes"):
        return ByteTokenizer(strips_thinking=family != "bytes")
    from models.chat_tokenizers import tokenizer_of

    return tokenizer_of(family)


def learnt_from(sample: Sample) -> dict[int, tuple[int, float]]:
    """The places that a trainer learns from: id and log-probability."""
    return {
        place: (number, logprob)
        for place, (number, kept, logprob) in enumerate(zip(sample.ids, sample.mask, sample.logprobs, strict=True))
        if kept
    }


def sampled_within(
    sample: Sample, turns: Mapping[int, tuple[tuple[int, ...], tuple[int, ...]]]
) -> tuple[dict[int, tuple[int, float]], list[int]]:
    """What was sampled in a sample, by place, and which turns these were: those that it begins with."""
    found: dict[int, tuple[int, float]] = {}
    held = [turn for turn, (prompt, said) in turns.items() if sample.ids[: len(prompt + said)] == prompt + said]
    for turn in held:
        prompt, said = turns[turn]
        found.update({len(prompt) + place: (number, -1.0 - place) for place, number in enumerate(said)})
    return found, held


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("program", [guess(), shop()], ids=["game", "tools"])
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=st.lists(replies, min_size=1, max_size=4), ends=st.booleans())
def test_masks_cover_what_was_sampled_and_never_an_observation(
    family: str, program: Program, said: list[str], ends: bool
) -> None:
    if not family.startswith("bytes") and importlib.util.find_spec("transformers") is None:
        pytest.skip("transformers is not installed")
    model = Speaker(tokenizer_named(family), said, ends=ends)
    plays = play_all(
        orders_of(program, [1, 2]), model, settings=PlayerSettings(max_turns=4, sampling=Sampling(max_tokens=4096))
    )
    for play in plays:
        if play.status != "ok":
            assert play.samples == ()
            continue
        turns = {turn: model.exchanges[f"{play.key}/{turn}"] for turn in range(len(play.turns))}
        for sample in play.samples:
            found, held = sampled_within(sample, turns)
            assert learnt_from(sample) == found
            for turn in held:  # each reply is learnt from once, however often it is read again
                del turns[turn]
        assert turns == {}
