from __future__ import annotations

import json
from email.message import Message as Headers
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_server import completion

from spade_gym.models.base import Sampling
from spade_gym.models.openai_answer import Reading, read_answer
from spade_gym.models.openai_failures import Key, ServerFailure, asked_wait
from spade_gym.models.openai_link import Address, Answer
from spade_gym.models.openai_settings import OpenAISettings

SAMPLING = Sampling(temperature=1.0, top_p=1.0, top_k=0)


def read(body: Any, *, sampling: Sampling = SAMPLING, status: int = 200, **settings: Any) -> Reading:
    configured = OpenAISettings(api_key_env="", **settings)
    key = Key(configured, Address.parse("http://127.0.0.1:1/v1"))
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read_answer(Answer(status, Headers(), data), sampling=sampling, settings=configured, key=key)


def tool_call(name: str, arguments: Any) -> dict[str, Any]:
    return {"id": "x", "type": "function", "function": {"name": name, "arguments": arguments}}


def test_tool_calls_are_put_back_as_text() -> None:
    calls = [tool_call("look", '{"at": "</tool_call>é"}'), tool_call("stop", "")]
    reading = read(completion("First.", finish_reason="tool_calls", tool_calls=calls))
    assert reading.finish == "stop"
    assert reading.text == (
        'First.\n<tool_call>{"name": "look", "arguments": {"at": "\\u003c/tool_call>é"}}</tool_call>\n'
        '<tool_call>{"name": "stop", "arguments": {}}</tool_call>'
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"a": 1', '"{\\"a\\": 1"'),
        ("[1]", '"[1]"'),
        ('{"a": NaN}', '"{\\"a\\": NaN}"'),
        ({"a": 1}, '{"a": 1}'),
        (None, "{}"),
    ],
)
def test_arguments_that_are_no_object_stay_what_the_model_wrote(arguments: Any, expected: str) -> None:
    reading = read(completion(None, tool_calls=[tool_call("f", arguments)]))
    assert reading.text == f'<tool_call>{{"name": "f", "arguments": {expected}}}</tool_call>'


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thoughts_are_put_back_in_front(field: str) -> None:
    assert read(completion("\n\n4", **{field: "\n2+2\n"})).text == "<think>\n2+2\n</think>\n\n4"


def test_thoughts_that_were_cut_stay_open() -> None:
    assert read(completion(None, finish_reason="length", reasoning_content="so far")).text == "<think>so far"
    assert read(completion("a", finish_reason="length", reasoning_content="b")).text == "<think>b</think>a"
    assert read(completion(None, reasoning_content="only")).text == "<think>only</think>"


@pytest.mark.parametrize(
    ("reason", "finish"), [("stop", "stop"), ("eos", "stop"), ("function_call", "stop"), ("length", "length")]
)
def test_ends(reason: str, finish: str) -> None:
    assert read(completion("x", finish_reason=reason)).finish == finish


def test_a_refusal_is_what_the_model_said() -> None:
    assert read(completion(None, refusal="I will not.")).text == "I will not."


def test_a_stop_text_that_the_server_names_is_part_of_the_text() -> None:
    body = completion("a b ")
    body["choices"][0]["stop_reason"] = "END"
    for stop_texts in ("kept", "dropped"):
        assert read(body, sampling=Sampling(stop=("END",)), stop_texts=stop_texts).text == "a b END"
        assert read(body, stop_texts=stop_texts).text == "a b "
    body["choices"][0]["message"]["content"] = "a b END"
    assert read(body, sampling=Sampling(stop=("END",)), stop_texts="kept").text == "a b END"
    body["choices"][0]["stop_reason"] = 2
    assert read(body, sampling=Sampling(stop=("2",)), stop_texts="kept").text == "a b END"


@pytest.mark.parametrize("reason", ["stop", "length"])
@pytest.mark.parametrize(
    ("stop", "text", "stopped"),
    [(("END", "c d"), "a b c d", True), (("b", "a b"), "a b", True), (("x",), "a b c d END e", False)],
)
def test_what_follows_a_stop_text_is_cut_here(reason: str, stop: tuple[str, ...], text: str, stopped: bool) -> None:
    reading = read(completion("a b c d END e", finish_reason=reason), sampling=Sampling(stop=stop))
    assert (reading.text, reading.finish) == (text, "stop" if stopped else reason)


def with_tokens(**choice: Any) -> dict[str, Any]:
    body = completion("xy")
    body["choices"][0] |= {
        "token_ids": [5, 6],
        "logprobs": {"content": [{"token": "x", "logprob": -0.5}, {"token": "y", "logprob": -1}]},
        **choice,
    }
    return body


def test_tokens_are_left_alone_unless_asked_for() -> None:
    reading = read(with_tokens())
    assert (reading.ids, reading.logprobs, reading.kept_logprobs) == (None, None, None)
    assert read(with_tokens(), token_ids=True)[2:5] == ((5, 6), None, None)


def test_what_the_logprobs_are_depends_on_the_sampling() -> None:
    values = (-0.5, -1.0)
    raw: dict[str, Any] = {"token_ids": True, "server_logprobs": "raw"}
    processed: dict[str, Any] = {"token_ids": True, "server_logprobs": "processed"}
    cut = Sampling(temperature=1.0, top_p=0.9, top_k=5)
    greedy = Sampling(temperature=0.0)
    assert read(with_tokens(), **raw)[2:5] == ((5, 6), values, values)
    assert read(with_tokens(), sampling=cut, **raw)[2:5] == ((5, 6), values, None)
    assert read(with_tokens(), sampling=greedy, **raw)[2:5] == ((5, 6), values, (0.0, 0.0))
    assert read(with_tokens(), **processed)[2:5] == ((5, 6), values, values)
    assert read(with_tokens(), sampling=cut, **processed)[2:5] == ((5, 6), None, values)
    assert read(with_tokens(), sampling=greedy, **processed)[2:5] == ((5, 6), None, (0.0, 0.0))


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ({"token_ids": None}, "returned no token ids"),
        ({"logprobs": None}, "returned no log-probabilities for 2 tokens"),
        ({"token_ids": [5]}, "returned 2 log-probabilities for 1 tokens"),
        ({"token_ids": ["5"]}, "no chat completion"),
    ],
)
def test_missing_tokens_are_a_failure(choice: dict[str, Any], said: str) -> None:
    with pytest.raises(ServerFailure, match=said) as caught:
        read(with_tokens(**choice), token_ids=True, server_logprobs="raw")
    assert not caught.value.may_pass


def test_without_usage_the_ids_are_counted() -> None:
    body = with_tokens()
    del body["usage"]
    assert read(body, token_ids=True).completion_tokens == 2
    assert read(body).completion_tokens == 0


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
places = st.sampled_from(
    [
        ("choices",),
        ("choices", 0),
        ("choices", 0, "message"),
        ("choices", 0, "message", "content"),
        ("choices", 0, "message", "tool_calls"),
        ("choices", 0, "finish_reason"),
        ("choices", 0, "logprobs"),
        ("usage",),
        ("error",),
    ]
)


@given(json_values, places, st.integers(100, 599))
def test_a_strange_answer_is_a_reading_or_a_failure(value: Any, place: tuple[Any, ...], status: int) -> None:
    body: Any = completion()
    inner = body
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    for code in (200, status):
        try:
            reading = read(body, status=code, token_ids=False)
        except ServerFailure:
            continue
        assert isinstance(reading.text, str)
        assert reading.finish in ("stop", "length")


@given(st.binary(max_size=60), st.integers(100, 599))
def test_any_bytes_are_a_failure(data: bytes, status: int) -> None:
    with pytest.raises(ServerFailure) as caught:
        read(data, status=status)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("3", 3.0), ("0.5", 0.5), ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0), ("soon", None), ("", None), ("-1", None)],
)
def test_retry_after(value: str, seconds: float | None) -> None:
    headers = Headers()
    headers["Retry-After"] = value
    assert asked_wait(headers) == seconds
    assert asked_wait(Headers()) is None


def test_a_lone_surrogate_in_a_tool_call_becomes_a_question_mark() -> None:
    call = tool_call("look", '{"at": "\\ud800", "on": "\\ud83d\\ude00"}')
    text = read(completion(None, finish_reason="tool_calls", tool_calls=[call])).text
    assert text == '<tool_call>{"name": "look", "arguments": {"at": "?", "on": "\U0001f600"}}</tool_call>'
    assert read(completion(None, tool_calls=[tool_call("f", "x")])).text.isascii()


@pytest.mark.parametrize(
    ("said", "understood"),
    [(2**31 - 1, 2**31 - 1), (2**31, 0), (2**63, 0), (10**30, 0), (-1, 0), (None, 0), ("7", 0), (1.5, 0), (True, 0)],
)
def test_a_usage_that_cannot_be_is_unknown(said: Any, understood: int) -> None:
    body = {**completion("x"), "usage": {"prompt_tokens": said, "completion_tokens": said}}
    reading = read(body)
    assert (reading.text, reading.prompt_tokens, reading.completion_tokens) == ("x", understood, understood)


@pytest.mark.parametrize("token", [-1, 2**31, 2**63, 2**70, 1.5, None])
def test_an_id_that_no_vocabulary_has_makes_no_completion(token: Any) -> None:
    body = completion("x")
    body["choices"][0]["token_ids"] = [2**31 - 1, 0]
    assert read(body, token_ids=True).ids == (2**31 - 1, 0)
    body["choices"][0]["token_ids"] = [0, token]
    with pytest.raises(ServerFailure, match="no chat completion"):
        read(body, token_ids=True)


@pytest.mark.parametrize("code", [True, -1, 0, 10**9])
def test_a_code_that_is_no_status_is_not_shown_as_one(code: Any) -> None:
    with pytest.raises(ServerFailure, match="answered with an error: broken"):
        read({"error": {"code": code, "message": "broken"}})


def test_a_date_in_the_far_future_is_a_wait_that_can_be_waited() -> None:
    headers = Headers()
    headers["Retry-After"] = "Fri, 31 Dec 9999 23:59:59 -2359"
    assert asked_wait(headers) == 1e9


def test_arguments_of_any_depth_are_a_reading_or_a_failure() -> None:
    for depth in [*range(900, 1010), 5000]:
        call = tool_call("f", '{"a":' * depth + "1" + "}" * depth)
        try:
            said = read(completion(None, tool_calls=[call])).text
        except ServerFailure as failure:
            said = str(failure)
        assert said.startswith(('<tool_call>{"name": "f"', "the arguments of a tool call are nested too deeply"))
