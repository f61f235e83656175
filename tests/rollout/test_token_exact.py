"""Plays with models that take token ids: what a trainer gets is what was said."""

from __future__ import annotations

from collections.abc import Callable

from games import guess, orders_of, shop
from models.byte_tokenizer import ByteTokenizer
from models.scripted_model import ScriptedModel

from spade_gym.models.base import Completion, ModelError, ModelRequest, Sampling
from spade_gym.models.chat import ChatFormat
from spade_gym.rollout.play import Play
from spade_gym.rollout.player_settings import PlayerSettings
from spade_gym.rollout.rollout import play_all

START, END = "<|im_start|>", "<|im_end|>"


class TokenModel(ScriptedModel):
    """A scripted model whose chats are bytes."""

    def __init__(
        self, script: Callable[[ModelRequest], str], *, strips_thinking: bool = False, max_context: int | None = None
    ) -> None:
        super().__init__(lambda request: self.completion(request, script(request)), max_context=max_context)
        self.tokenizer = ByteTokenizer(strips_thinking=strips_thinking)
        self.chat_format = ChatFormat(self.tokenizer)  # type: ignore[assignment]

    def completion(self, request: ModelRequest, text: str) -> Completion:
        ids = tuple(self.tokenizer.encode(text))
        kept = ids[: request.sampling.max_tokens]
        return Completion(
            key=request.key, text=self.tokenizer.decode(kept), finish="stop" if kept == ids else "length", ids=kept,
            logprobs=(-1.0,) * len(kept), kept_logprobs=(-0.5,) * len(kept),
            prompt_tokens=len(request.prompt_ids or ()), completion_tokens=len(kept),
        )  # fmt: skip

    def texts(self, play: Play) -> list[tuple[str, list[str]]]:
        """Each sample as text, and the parts of it that are learned from."""
        found = []
        for sample in play.samples:
            parts, part = [], []
            for number, kept in zip((*sample.ids, 0), (*sample.mask, 0), strict=True):
                if kept:
                    part.append(number)
                elif part:
                    parts.append(self.tokenizer.decode(part))
                    part = []
            found.append((self.tokenizer.decode(sample.ids), parts))
        return found


def tries(request: ModelRequest) -> str:
    return [r"<think>a</think>\boxed{7}", r"<think>b</think>\boxed{3}"][len(request.messages) // 2]


def test_a_chat_is_one_sample_of_what_was_said() -> None:
    model = TokenModel(tries)
    (play,) = play_all(orders_of(guess(), [3]), model)
    ((text, learned),) = model.texts(play)
    assert learned == [r"<think>a</think>\boxed{7}", r"<think>b</think>\boxed{3}"]
    assert text.startswith(f"{START}user\n{play.turns[0].observation}{END}\n{START}assistant\n{learned[0]}{END}\n")
    assert f"{START}user\nWrong: 7.{END}\n{START}assistant\n{learned[1]}{END}" in text
    (sample,) = play.samples
    assert sample.ids[: len(model.requests[1].prompt_ids or ())] == model.requests[1].prompt_ids
    assert {number for number, kept in zip(sample.logprobs, sample.mask, strict=True) if kept} == {-1.0}


def test_thinking_that_is_left_out_begins_a_new_sample() -> None:
    model = TokenModel(tries, strips_thinking=True)
    (play,) = play_all(orders_of(guess(), [3]), model)
    (_, first), (text, second) = model.texts(play)
    assert first == [r"<think>a</think>\boxed{7}"]
    assert second == [r"<think>b</think>\boxed{3}"]
    assert "<think>a" not in text


def test_the_ids_of_both_arms_differ_by_the_hint_alone() -> None:
    model = TokenModel(lambda request: r"\boxed{3}")
    play_all([*orders_of(guess(), [3]), *orders_of(guess(), [3], arm="hint")], model)
    plain, hint = (list(request.prompt_ids or ()) for request in model.requests)
    added = list(b"\n\nHINT: It is the number you read.")
    place = next(index for index, (a, b) in enumerate(zip(plain, hint, strict=False)) if a != b)
    starts = [at for at in range(place + 1) if hint[at : at + len(added)] == added]
    assert any(hint[:at] + hint[at + len(added) :] == plain for at in starts)


def test_several_tool_results_are_several_messages() -> None:
    calls = '<tool_call>[{"name": "get_price", "arguments": {"item": "pear"}}, {"name": "no"}]</tool_call>'
    model = TokenModel(lambda request: calls)
    (play,) = play_all(orders_of(shop(), [3]), model, settings=PlayerSettings(max_turns=2))
    ((text, learned),) = model.texts(play)
    assert learned == [calls, calls]
    assert f"{START}tool\n1{END}\n{START}tool\nError: there is no tool 'no'" in text


def test_a_reply_that_was_cut_off_is_learned_from_but_not_played() -> None:
    model = TokenModel(lambda request: "I wonder and wonder")
    (play,) = play_all(orders_of(guess(), [3]), model, settings=PlayerSettings(sampling=Sampling(max_tokens=8)))
    ((_, learned),) = model.texts(play)
    assert learned == ["I wonder"]
    assert (play.ended, play.length, play.last_observation) == ("cut", 0, "")


def test_the_context_is_that_of_the_chat() -> None:
    model = TokenModel(lambda request: r"\boxed{half}")
    (play,) = play_all(orders_of(guess(), [3]), model, settings=PlayerSettings(max_turns=1))
    start = play.prompt_tokens
    model = TokenModel(lambda request: r"\boxed{half}", max_context=start + 30)
    (play,) = play_all(orders_of(guess(), [3]), model)
    assert [request.sampling.max_tokens for request in model.requests] == [30]  # 12 are used, the rest is no room
    assert (play.ended, play.status, play.length, play.total) == ("context", "ok", 1, 0.5)
    tight = TokenModel(lambda request: r"\boxed{half}", max_context=start)
    (none,) = play_all(orders_of(guess(), [3]), tight)
    assert (none.ended, none.length, none.total, none.samples, tight.requests) == ("context", 0, 0.0, (), [])
    assert none.last_observation == "Guess 3."


def test_faulty_plays_have_no_samples() -> None:
    model = TokenModel(lambda request: r"\boxed{crash}")
    (play,) = play_all(orders_of(guess(), [3]), model)
    assert (play.status, play.samples) == ("env_error", ())


class Choosy(ByteTokenizer):
    """Its template knows no tools."""

    def apply_chat_template(self, conversation, **settings):  # type: ignore[no-untyped-def]
        if any(message["role"] == "tool" for message in conversation):
            raise ValueError("no role tool")
        return super().apply_chat_template(conversation, **settings)


def test_a_chat_that_cannot_be_rendered_aborts_the_play() -> None:
    model = TokenModel(lambda request: '<tool_call>{"name": "get_price"}</tool_call>')
    model.chat_format = ChatFormat(Choosy())  # type: ignore[assignment]
    (play,) = play_all(orders_of(shop(), [3]), model)
    assert play.status == "aborted"
    assert "no role tool" in play.fault
    assert ModelError.__name__ not in play.fault
    assert play.length == 1
