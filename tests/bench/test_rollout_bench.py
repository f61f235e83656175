from __future__ import annotations

from itertools import count

import pytest

from spade_gym.bench.rollout import GOALS, STEPS_PER_PLAY, Size, _orders, measure
from spade_gym.bench.rollout_engine import compare
from spade_gym.bench.rollout_model import ByteTokenizer, FixedReplyModel
from spade_gym.models.base import Completion, ModelError
from spade_gym.rollout.rollout import play_all


def test_the_tokenizer_writes_bytes_and_chatml() -> None:
    tokenizer = ByteTokenizer()
    text = tokenizer.apply_chat_template([{"role": "user", "content": "é"}], add_generation_prompt=True)
    assert text == "<|im_start|>user\né<|im_end|>\n<|im_start|>assistant\n"
    ids = tokenizer.encode(text)
    assert ids[:2] == [256, ord("u")]
    assert ids[6:10] == [0xC3, 0xA9, 257, ord("\n")]
    assert tokenizer.decode(ids) == text
    assert tokenizer.decode(ids, skip_special_tokens=True) == "user\né\nassistant\n"


def test_the_fake_model_goes_through_the_whole_path() -> None:
    """Chats of token ids hold what was sampled, and nothing else is masked in."""
    model = FixedReplyModel(r"I go. \boxed{look}", token_exact=True, batch=2)
    plays = play_all(_orders(5, 3, 2), model, max_in_flight=4)
    reply = [*rb"I go. \boxed{look}", 257]
    for play in plays:
        assert (play.length, play.total, play.won) == (3, 1.0, True)
        (sample,) = play.samples
        assert [number for number, kept in zip(sample.ids, sample.mask, strict=True) if kept] == reply * 3
        assert set(sample.logprobs) == {0.0, -0.5}
        text = ByteTokenizer().decode(sample.ids)
        assert text.count("<|im_start|>assistant\n" + r"I go. \boxed{look}<|im_end|>") == 3
        assert text.count("<|im_start|>user\nYou are still in a small room with one door.<|im_end|>") == 2
        assert play.completion_tokens == 3 * len(reply)


def test_a_slow_model_counts_its_time() -> None:
    model = FixedReplyModel(r"\boxed{look}", token_exact=False, seconds=0.01)
    play_all(_orders(3, 2, 1), model)
    assert model.seconds_spent >= 0.02
    assert model.collect() == []
    assert model.seconds_spent < 1


def test_the_ratio_compares_the_same_calls() -> None:
    """Every reading of the clock takes a second: 8 submits and 2 collects are 10 s of a rollout of 21 s."""
    model = FixedReplyModel(r"\boxed{look}", token_exact=True)
    seconds = count(0.0, 1.0)
    ratio = compare(model, list(_orders(4, 2, 1)), repetitions=2, clock=lambda: next(seconds))
    assert ratio.value == pytest.approx(10 / 21)
    tokens = 2 * 8 * 13  # 12 bytes and the end token
    rates = f"{tokens / 42:.1f} tokens/s playing, its calls {tokens / 20:.1f}, made again alone {tokens / 2:.1f}"
    assert ratio.note == f"fixed reply: {rates}; 4 plays, 2 times"


class Forgetful(FixedReplyModel):
    """Says something else each time."""

    counter = count(1)

    def _answer(self, request: object) -> Completion:
        completion = super()._answer(request)  # type: ignore[arg-type]
        return Completion(completion.key, completion.text, "stop", completion_tokens=next(self.counter))


def test_calls_that_give_other_tokens_cannot_be_compared() -> None:
    with pytest.raises(ModelError, match="for the same requests"):
        compare(Forgetful(r"\boxed{look}", token_exact=False), list(_orders(2, 2, 1)), repetitions=1)


@pytest.mark.slow
def test_every_figure_is_measured() -> None:
    """Times are judged by people, with the command; here only their presence, and that memory stays flat."""
    result = measure(Size.quick())
    assert {name for name, _, _ in GOALS} <= set(result)
    assert result["steps_per_second"] > 100
    assert 0 < result["bookkeeping_share"] < 1
    assert result["engine_tokens_ratio"] is None
    assert result["engine_tokens_ratio_note"]
    assert result["memory_growth_kb"] < 20_000
    assert result["steps_per_play"] == STEPS_PER_PLAY
