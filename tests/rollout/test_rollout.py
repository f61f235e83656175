from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from conftest import make_program
from games import guess, orders_of, shop
from models.scripted_model import Answer, ScriptedModel, last_user_text

from spade_gym.bench.throughput import _num_descendants
from spade_gym.errors import SandboxError
from spade_gym.models.base import Completion, Message, ModelError, ModelRequest, Sampling
from spade_gym.rollout.play import Play, PlayOrder, Turn
from spade_gym.rollout.player_settings import PlayerSettings
from spade_gym.rollout.rollout import Counts, play_all, stream_plays
from spade_gym.sandbox.base import Limits

BARE = "{observation}"


def reader(request: ModelRequest) -> str:
    """Solve the guessing game: read the number off the first message."""
    found = re.search(r"Guess (\d)\.", request.messages[-1].content)
    return f"<think>easy</think>\\boxed{{{found[1]}}}" if found else r"\boxed{?}"


def slow_reader(request: ModelRequest) -> str:
    """Solve it after as many wrong tries as the number says."""
    goal = int(re.search(r"Guess (\d)\.", request.messages[0].content)[1])  # type: ignore[index]
    tries = len(request.messages) // 2
    return rf"\boxed{{{goal if tries == goal else 'no' + str(tries)}}}"


def num_processes() -> int:
    time.sleep(0.2)  # killed workers are gone a moment later
    return _num_descendants(os.getpid())


def without_time(plays: list[Play]) -> list[Play]:
    return [replace(play, seconds=0.0) for play in plays]


def test_a_play_is_a_whole_row() -> None:
    (play,) = play_all([PlayOrder("play/0/0/plain/0", guess(), seed=8)], ScriptedModel(reader))
    (turn,) = play.turns
    assert "\n\nGuess 3.\n\n" in turn.observation
    text = r"<think>easy</think>\boxed{3}"
    assert turn == Turn(turn.observation, text, r"\boxed{3}", 1.0)
    assert play.seconds > 0
    assert replace(play, seconds=0.0) == Play(
        key="play/0/0/plain/0", digest=guess().digest, seed=8, arm="plain", total=1.0, won=True, length=1, status="ok",
        fault="", ended="terminated", turns=(turn,), samples=(), policy_version=0,
        prompt_tokens=len(turn.observation), completion_tokens=len(text), seconds=0.0, last_observation="Right.",
    )  # fmt: skip


def test_the_prompts_of_both_arms_differ_by_the_hint_alone() -> None:
    for program in (guess(), shop()):
        model = ScriptedModel(lambda request: "<answer>done</answer>")
        settings = PlayerSettings(max_turns=1)
        play_all(orders_of(program, [4]) + orders_of(program, [4], arm="hint"), model, settings=settings)
        plain, hint = model.requests
        added = f"\n\nHINT: {program.manifest.hint}"
        assert hint.messages[0].content.count(added) == 1
        assert hint.messages[0].content.replace(added, "") == plain.messages[0].content
        assert replace(hint, key="", messages=()) == replace(plain, key="", messages=())  # same seeds in both arms


def test_later_turns_are_bare_unless_every_turn_is_wrapped() -> None:
    for wrapped in (False, True):
        model = ScriptedModel([r"\boxed{a}", r"\boxed{b}", r"\boxed{1}"])
        settings = PlayerSettings(wrap_every_turn=wrapped)
        (play,) = play_all(orders_of(guess(), [1]), model, settings=settings)
        assert [turn.action for turn in play.turns] == [r"\boxed{a}", r"\boxed{b}", r"\boxed{1}"]
        last = model.requests[-1].messages
        assert [message.role for message in last] == ["user", "assistant", "user", "assistant", "user"]
        assert last[-1].content == play.turns[-1].observation
        first = play.turns[0].observation
        assert last[-1].content == (first.replace("Guess 1.", "Wrong: b.") if wrapped else "Wrong: b.")
        assert last[1].content == r"\boxed{a}"


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("batch", [1, 3, None])
@pytest.mark.parametrize("max_in_flight", [1, 4, 100])
def test_neither_batches_nor_the_order_of_answers_change_what_is_asked(
    batch: int | None, newest_first: bool, max_in_flight: int
) -> None:
    orders = [
        order
        for environment, program in enumerate((guess(), guess(description="another")))
        for order in orders_of(program, range(6), environment=environment)
    ]
    expected = ScriptedModel(slow_reader)
    wanted = without_time(play_all(orders, expected, max_in_flight=max_in_flight))
    assert [play.key for play in wanted] == [order.key for order in orders]
    assert [play.length for play in wanted] == [1, 2, 3, 4, 5, 1] * 2
    assert all(play.won for play in wanted)
    model = ScriptedModel(slow_reader, batch=batch, newest_first=newest_first)
    ended: list[str] = []
    found = play_all(orders, model, max_in_flight=max_in_flight, on_play=lambda play: ended.append(play.key))
    assert without_time(found) == wanted
    assert [request.key for request in model.requests] == [request.key for request in expected.requests]
    assert model.requests == expected.requests
    unordered = ScriptedModel(slow_reader, batch=batch, newest_first=newest_first)
    assert without_time(play_all(orders, unordered, max_in_flight=max_in_flight, in_order=False)) == wanted
    assert sorted(unordered.requests, key=str) == sorted(model.requests, key=str)


def test_out_of_order_plays_go_on_while_one_is_awaited() -> None:
    def script(request: ModelRequest) -> str:
        return r"\boxed{0}" if "/plain/0/" in request.key else slow_reader(request)

    orders = orders_of(guess(), [0, 3, 3])
    ended: list[str] = []
    model = ScriptedModel(script, batch=1, newest_first=True)  # the first request is answered last of all
    play_all(orders, model, in_order=False, on_play=lambda play: ended.append(play.key))
    assert ended == [orders[2].key, orders[1].key, orders[0].key]


def test_each_turn_has_a_seed_of_its_own_that_depends_on_the_order_alone() -> None:
    program = guess()
    seeds: list[dict[str, int]] = []
    for seconds in (orders_of(program, [4, 4]), orders_of(program, [4, 4])[::-1]):
        model = ScriptedModel(slow_reader)
        play_all(seconds, model)
        seeds.append({request.key: request.seed for request in model.requests})
    assert seeds[0] == seeds[1]
    assert len(set(seeds[0].values())) == len(seeds[0]) == 10
    assert all(0 <= seed < 2**31 for seed in seeds[0].values())


def test_a_reply_that_was_cut_off_ends_the_play_and_is_not_played() -> None:
    settings = PlayerSettings(sampling=Sampling(max_tokens=12))
    model = ScriptedModel([r"\boxed{half}", r"\boxed{3} and so on"])
    (play,) = play_all(orders_of(guess(), [3]), model, settings=settings)
    assert [(turn.completion, turn.action, turn.reward) for turn in play.turns] == [
        (r"\boxed{half}", r"\boxed{half}", 0.5),
        (r"\boxed{3} an", None, 0.0),
    ]
    assert (play.total, play.won, play.length, play.status, play.ended) == (0.5, False, 1, "ok", "cut")


def test_turns_run_out() -> None:
    settings = PlayerSettings(max_turns=3)
    model = ScriptedModel(lambda request: r"\boxed{half}")
    (play,) = play_all(orders_of(guess(), [3]), model, settings=settings)
    assert (play.ended, play.length, play.total, play.won) == ("turns", 3, 1.0, False)
    assert play.last_observation == "Half of it."
    limited = play_all(orders_of(guess(), [3]), ScriptedModel(lambda request: "x"), limits=Limits(turns=2))
    assert (limited[0].ended, limited[0].length) == ("turns", 2)


def test_tokens_run_out() -> None:
    settings = PlayerSettings(total_tokens=25, sampling=Sampling(max_tokens=20))
    model = ScriptedModel([r"\boxed{half}", r"\boxed{half!}"])
    (play,) = play_all(orders_of(guess(), [3]), model, settings=settings)
    assert [request.sampling.max_tokens for request in model.requests] == [20, 13]
    assert (play.ended, play.length, play.completion_tokens) == ("tokens", 2, 25)


def test_the_context_runs_out() -> None:
    model = ScriptedModel([r"\boxed{half}", r"\boxed{half}"], max_context=10_000)
    start = PlayerSettings(context_tokens=1)
    (play,) = play_all(orders_of(guess(), [3]), ScriptedModel([r"\boxed{half}"]), settings=start)
    room = play.prompt_tokens + 12
    settings = PlayerSettings(context_tokens=room)
    (play,) = play_all(orders_of(guess(), [3]), model, settings=settings)
    assert (play.ended, play.length, play.total, play.status) == ("context", 1, 0.5, "ok")
    assert play.last_observation == "Half of it."


def test_returns_follow_the_rule_and_wins_the_threshold() -> None:
    model = ScriptedModel(lambda request: r"\boxed{half}" if len(request.messages) == 1 else r"\boxed{3}")
    orders = orders_of(guess(), [3])
    assert play_all(orders, model)[0].total == 1.0  # 0.5 + 1, clipped
    last = PlayerSettings(reward="last", max_turns=1)
    assert play_all(orders, model, settings=last)[0].total == 0.0
    low = PlayerSettings(win_threshold=0.4, max_turns=1)
    assert not play_all(orders, model, settings=low)[0].won  # it did not terminate


def test_a_failure_of_the_model_aborts_the_play_alone() -> None:
    def script(request: ModelRequest) -> Answer:
        if request.key == "play/0/0/plain/1/1":
            return Completion(key="", text="", finish="error", error="503 from the server")
        return slow_reader(request)

    plays = play_all(orders_of(guess(), [2, 2, 2]), ScriptedModel(script))
    assert [play.status for play in plays] == ["ok", "aborted", "ok"]
    assert plays[1].fault == "503 from the server"
    assert (plays[1].total, plays[1].won, plays[1].length, plays[1].ended) == (0.0, False, 1, "fault")


def test_a_request_that_the_model_refuses_raises() -> None:
    with pytest.raises(ModelError, match="no top_k here"):
        play_all(orders_of(guess(), [2]), ScriptedModel(lambda request: ModelError("no top_k here")))


def test_a_program_that_fails_is_nobodys_loss() -> None:
    def script(request: ModelRequest) -> str:
        number = request.key.split("/")[4]
        return {"1": r"\boxed{crash}", "2": r"\boxed{hang}"}.get(number, reader(request))

    plays = play_all(orders_of(guess(), [2, 2, 2, 2]), ScriptedModel(script), limits=Limits(step_seconds=0.3))
    assert [play.status for play in plays] == ["ok", "env_error", "timeout", "ok"]
    assert [play.total for play in plays] == [1.0, 0.0, 0.0, 1.0]
    assert "told to" in plays[1].fault
    assert plays[2].fault.startswith("timeout:")
    assert plays[1].turns[0].action == r"\boxed{crash}"
    assert plays[1].length == 0


def test_programs_that_cannot_begin_are_faulty_and_others_go_on() -> None:
    broken = make_program("class BrokenEnv:\n    pass\n", "BrokenEnv")
    resets = make_program("class REnv:\n    def reset(self, seed=None):\n        if seed: raise OSError\n"
                          "        return 'o', {}\n    def step(self, a):\n        return 'e', 1.0, True, False, {}\n",
                          "REnv")  # fmt: skip
    orders = [*orders_of(broken, [1, 2]), *orders_of(resets, [0, 1], environment=1)]
    orders += orders_of(guess(), [1], environment=2)
    counts: list[Counts] = []
    plays = play_all(orders, ScriptedModel(reader), max_in_flight=1, max_sessions=1, progress=counts.append)
    assert [play.status for play in plays] == ["env_error", "env_error", "ok", "env_error", "ok"]
    assert plays[0].turns == ()
    assert counts[-1] == Counts(plays=5, faulty=3, in_flight=0, steps=2, tokens=len(r"\boxed{?}") + 28)


def test_there_are_never_more_sessions_than_allowed() -> None:
    programs = [guess(kwargs={"max_turns": 10 + number}) for number in range(5)]
    orders = [order for number, program in enumerate(programs) for order in orders_of(program, [1], environment=number)]
    most = 0

    def script(request: ModelRequest) -> str:
        nonlocal most
        most = max(most, _num_descendants(os.getpid()) - before)
        return reader(request)

    play_all(orders_of(guess(), [1]), ScriptedModel(reader))  # the zygote stays
    before = num_processes()
    plays = play_all(orders, ScriptedModel(script), max_sessions=2)
    assert all(play.won for play in plays)
    assert most == 2
    assert num_processes() == before


def test_orders_are_read_when_there_is_room_for_them() -> None:
    read: list[int] = []

    def orders() -> Iterator[PlayOrder]:
        for number in range(100):
            read.append(number)
            yield PlayOrder(str(number), guess(), number)

    plays = stream_plays(orders(), ScriptedModel(reader), max_in_flight=3)
    assert next(plays).key == "0"
    assert read == [0, 1, 2]
    assert len(list(plays)) == 99


def test_an_interrupt_keeps_what_was_played_and_leaves_no_process() -> None:
    play_all(orders_of(guess(), [1]), ScriptedModel(reader))
    before = num_processes()
    kept: list[Play] = []

    def script(request: ModelRequest) -> str:
        if len(kept) >= 2:
            raise KeyboardInterrupt
        return reader(request)

    with pytest.raises(KeyboardInterrupt):
        play_all(orders_of(guess(), range(9)), ScriptedModel(script), max_in_flight=2, on_play=kept.append)
    assert [play.key for play in kept] == ["play/0/0/plain/0", "play/0/0/plain/1"]
    assert num_processes() == before

    def refuse(play: Play) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full") as caught:
        play_all(orders_of(guess(), range(9)), ScriptedModel(reader), max_in_flight=2, on_play=refuse)
    assert num_processes() == before, caught
    plays = stream_plays(orders_of(guess(), range(9)), ScriptedModel(reader), max_in_flight=2)
    next(plays)
    plays.close()
    assert num_processes() == before


def test_a_broken_sandbox_raises() -> None:
    def orders() -> Iterator[PlayOrder]:
        yield from orders_of(guess(), [1])
        raise SandboxError("no more workers")

    with pytest.raises(SandboxError, match="no more workers"):
        play_all(orders(), ScriptedModel(reader))


class Odd(ScriptedModel):
    """Answers requests that were not made, or nothing."""

    def __init__(self, completions: list[Completion]) -> None:
        super().__init__(reader)
        self._odd = completions

    def collect(self) -> list[Completion]:
        return self._odd


def test_answers_that_nobody_asked_for_raise() -> None:
    stale = Completion(key="play/0/0/plain/7/0", text="", finish="stop")
    with pytest.raises(ModelError, match="'play/0/0/plain/7/0', which is not in flight"):
        play_all(orders_of(guess(), [1]), Odd([stale]))
    with pytest.raises(ModelError, match="returned nothing while 2 requests"):
        play_all(orders_of(guess(), [1, 2]), Odd([]))


def test_keys_are_unique() -> None:
    orders = orders_of(guess(), [1]) * 2
    with pytest.raises(ValueError, match="keys of the orders must be unique"):
        play_all(orders, ScriptedModel(reader))
    with pytest.raises(ValueError, match="share the key 'play/0/0/plain/0'"):
        list(stream_plays(orders, ScriptedModel(reader)))
    assert len(list(stream_plays(orders, ScriptedModel(reader), max_in_flight=1))) == 2


def test_a_hint_that_is_not_there_raises() -> None:
    with pytest.raises(ValueError, match="has no hint"):
        play_all(orders_of(guess().with_manifest(hint=""), [1], arm="hint"), ScriptedModel(reader))


def test_the_oldest_version_is_told() -> None:
    versions = iter([3, 2, 4])

    def script(request: ModelRequest) -> Completion:
        text = slow_reader(request)
        return Completion(key="", text=text, finish="stop", policy_version=next(versions), completion_tokens=1)

    (play,) = play_all(orders_of(guess(), [2]), ScriptedModel(script))
    assert (play.policy_version, play.completion_tokens) == (2, 3)


def shopper(request: ModelRequest) -> str:
    turn = sum(message.role == "assistant" for message in request.messages)
    return [
        "I do not know.",
        '<think><answer>done</answer></think><tool_call>{"name": "get_price", "arguments": {"item": "pear"}}'
        '</tool_call><tool_call>{"name": "set_price", "arguments": {"item": "pear", "price": 3}}</tool_call>',
        "<answer>done</answer>",
    ][turn]


def test_tools_are_used() -> None:
    model = ScriptedModel(shopper)
    (play,) = play_all(orders_of(shop(), [5]), model)
    assert (play.total, play.won, play.length) == (1.0, True, 3)
    assert [tool["function"]["name"] for tool in model.requests[0].tools] == ["get_price", "set_price"]
    assert model.requests[0].tools == model.requests[2].tools
    messages = model.requests[2].messages
    assert [message.role for message in messages] == ["user", "assistant", "user", "assistant", "tool", "tool"]
    assert messages[-2] == Message("tool", "1")
    assert messages[-1].content.startswith("changed")
    assert play.turns[2].observation.startswith("[1] get_price: 1\n\n[2] set_price: changed")
    assert "<think>" not in play.turns[1].action  # type: ignore[operator]


def test_a_prompt_that_lists_the_tools_leaves_the_chat_template_out() -> None:
    model = ScriptedModel(shopper)
    play_all(orders_of(shop(), [5]), model, settings=PlayerSettings(example=True))
    request = model.requests[0]
    assert request.tools == ()
    assert [message.role for message in request.messages] == ["user", "assistant", "user"]
    assert '{"name": "get_price", "description": "Price.", "parameters": {"item": "string"}}' in last_user_text(request)


def test_settings_are_checked_before_anything_is_played() -> None:
    for setting in ({"max_in_flight": 0}, {"max_sessions": 0}, {"isolation": "L9"}):
        with pytest.raises(ValueError, match="must be"):
            stream_plays([], ScriptedModel(reader), **setting)  # type: ignore[arg-type]
    assert play_all([], ScriptedModel(reader)) == []
