from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade_gym.models.base import Message, ModelError, ModelRequest, Role, Sampling
from spade_gym.models.openai_request import chat_messages, request_body, split_thoughts
from spade_gym.models.openai_settings import OpenAISettings

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


def body(sampling: Sampling, *, thinking: bool | None = None, tools: Any = (), **settings: Any) -> dict[str, Any]:
    request = ModelRequest("k", (Message("user", "hi"),), sampling, seed=3, thinking=thinking, tools=tools)
    result: dict[str, Any] = json.loads(request_body(request, model="m", settings=OpenAISettings(**settings)))
    return result


def test_truncation_that_is_off_is_sent_as_off() -> None:
    plain = body(Sampling(max_tokens=4, temperature=1.0, top_p=1.0, top_k=0))
    assert (plain["top_p"], plain["top_k"]) == (1, 0)
    assert set(plain) == {"model", "messages", "max_tokens", "temperature", "top_p", "top_k", "seed", "stream"}
    assert "top_k" not in body(Sampling(), omit=("top_k",))


def test_greedy_sends_no_truncation() -> None:
    greedy = body(Sampling(max_tokens=4, temperature=0.0))
    assert greedy["temperature"] == 0
    assert not {"top_p", "top_k"} & set(greedy)


def test_everything_that_is_asked_for_is_sent() -> None:
    full = body(
        Sampling(max_tokens=4, temperature=1.0, stop=("END",)),
        thinking=False,
        tools=(TOOL,),
        max_tokens_field="max_completion_tokens",
        token_ids=True,
        stop_texts="kept",
        server_logprobs="raw",
        omit=("seed",),
        extra_body={"user": "me"},
    )
    assert full["max_completion_tokens"] == 4
    assert full["stop"] == ["END"]
    assert full["include_stop_str_in_output"] is True
    assert full["tools"] == [TOOL]
    assert full["chat_template_kwargs"] == {"enable_thinking": False}
    assert full["return_token_ids"] is True
    assert full["logprobs"] is True
    assert full["user"] == "me"
    assert not {"seed", "max_tokens"} & set(full)


def test_stop_texts_are_sent_only_where_the_server_handles_them() -> None:
    stop = Sampling(stop=("END",))
    assert not {"stop", "include_stop_str_in_output"} & set(body(stop))
    assert body(stop, stop_texts="dropped")["stop"] == ["END"]
    assert "include_stop_str_in_output" not in body(stop, stop_texts="dropped")
    with pytest.raises(ModelError, match="cannot be cut at a stop text"):
        body(stop, token_ids=True)


def test_thinking_without_a_switch_is_refused() -> None:
    with pytest.raises(ModelError, match="thinking_switch is ''"):
        body(Sampling(), thinking=True, thinking_switch="")
    assert "chat_template_kwargs" not in body(Sampling(), thinking_switch="")


def test_raw_logprobs_at_another_temperature_are_refused() -> None:
    raw: dict[str, Any] = {"token_ids": True, "server_logprobs": "raw"}
    with pytest.raises(ModelError, match=r"samples at temperature 0\.6"):
        body(Sampling(), **raw)
    assert body(Sampling(), token_ids=True, server_logprobs="processed")["logprobs"] is True


def call(name: str, **arguments: Any) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def test_calls_and_results_are_matched_by_id() -> None:
    chat = (
        Message("system", "s"),
        Message("user", "u"),
        Message("assistant", f"<think>hm</think>Let me see.\n{call('a', x=1)}\n{call('b')}"),
        Message("tool", "one"),
        Message("tool", "two"),
        Message("assistant", call("c")),
        Message("tool", "three"),
    )
    sent = chat_messages(chat)
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "tool", "tool", "assistant", "tool"]
    assert sent[2]["content"] == "Let me see."
    calls = sent[2]["tool_calls"] + sent[5]["tool_calls"]
    assert [item["function"] for item in calls] == [
        {"name": "a", "arguments": '{"x": 1}'},
        {"name": "b", "arguments": "{}"},
        {"name": "c", "arguments": "{}"},
    ]
    ids = [item["id"] for item in calls]
    assert len(set(ids)) == 3
    assert [message["tool_call_id"] for message in sent if message["role"] == "tool"] == ids
    assert [message["content"] for message in sent if message["role"] == "tool"] == ["one", "two", "three"]


@pytest.mark.parametrize(
    ("said", "results"),
    [
        pytest.param("<tool_call>{broken</tool_call>", ["error"], id="no_json"),
        pytest.param(call("a") + call("b"), ["only one"], id="fewer_results"),
        pytest.param(call("a"), ["one", "two"], id="more_results"),
        pytest.param("no call", ["error"], id="no_call"),
        pytest.param('<tool_call>{"name": "a", "arguments": "x"}</tool_call>', ["error"], id="arguments_are_text"),
        pytest.param('<tool_call>{"name": "a"}</tool_call>', ["error"], id="no_arguments"),
        pytest.param(f"<think>{call('a')}</think>ok", ["error"], id="call_in_thoughts"),
    ],
)
def test_what_cannot_be_matched_stays_text(said: str, results: list[str]) -> None:
    chat = [Message("user", "u"), Message("assistant", said), *(Message("tool", text) for text in results)]
    sent = chat_messages(chat, thoughts="text")
    assert [message["role"] for message in sent] == ["user", "assistant"] + ["user"] * len(results)
    assert sent[1] == {"role": "assistant", "content": said}
    assert sent[2]["content"] == f"<tool_response>\n{results[0]}\n</tool_response>"


def test_an_unanswered_call_at_the_end_stays_text() -> None:
    assert chat_messages([Message("assistant", call("a"))]) == [{"role": "assistant", "content": call("a")}]


@pytest.mark.parametrize(
    ("thoughts", "expected"),
    [
        ("drop", {"role": "assistant", "content": "4"}),
        ("text", {"role": "assistant", "content": "<think>2+2</think>\n4"}),
        ("field", {"role": "assistant", "content": "4", "reasoning_content": "2+2"}),
    ],
)
def test_thoughts_of_earlier_turns(thoughts: Any, expected: dict[str, str]) -> None:
    assert chat_messages([Message("assistant", "<think>2+2</think>\n4")], thoughts=thoughts) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", ("", "plain")),
        ("<think>a</think>b", ("a", "b")),
        ("opened by the prompt</think>\n\nb", ("opened by the prompt", "b")),
        ("<think>never ends", ("never ends", "")),
        ("say <think>", ("", "say <think>")),
        ("", ("", "")),
    ],
)
def test_splitting_thoughts(text: str, expected: tuple[str, str]) -> None:
    assert split_thoughts(text) == expected


roles: st.SearchStrategy[Role] = st.sampled_from(("system", "user", "assistant", "tool"))
texts = st.lists(st.sampled_from(["<think>", "</think>", call("f"), "<tool_call>", "</tool_call>", "x", "{"])).map(
    "".join
)


@given(st.lists(st.builds(Message, roles, texts)))
def test_every_result_has_its_call_and_every_call_its_result(chat: list[Message]) -> None:
    sent = chat_messages(chat)
    assert len(sent) == len(chat)
    open_ids: list[str] = []
    for message in sent:
        if message["role"] == "tool":
            assert message["tool_call_id"] == open_ids.pop(0)
        else:
            assert open_ids == []
            open_ids = [item["id"] for item in message.get("tool_calls", ())]
    assert open_ids == []
    ids = [item["id"] for message in sent for item in message.get("tool_calls", ())]
    assert len(set(ids)) == len(ids)
