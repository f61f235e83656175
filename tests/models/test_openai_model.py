from __future__ import annotations

import copy
import itertools
import pickle
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import scripted_server as servers
from scripted_server import answer, ok, serving

from spade_gym.models.base import Completion, LanguageModel, Message, ModelError, ModelRequest, Sampling
from spade_gym.models.openai_failures import backoff
from spade_gym.models.openai_model import OpenAIModel
from spade_gym.models.openai_settings import OpenAISettings

SECRET = "sk-test-4f9c2e71aa"
FAST: dict[str, Any] = {"backoff_seconds": 0.01, "max_retries": 3, "timeout_seconds": 5.0}


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def request(key: str = "a", *, text: str = "hi", **fields: Any) -> ModelRequest:
    sampling = fields.pop("sampling", Sampling(max_tokens=16))
    return ModelRequest(key, (Message("user", text),), sampling, seed=fields.pop("seed", 1), **fields)


def ask(model: LanguageModel, *requests: ModelRequest) -> list[Completion]:
    for item in requests:
        model.submit(item)
    done: list[Completion] = []
    while some := model.collect():
        done += some
    return sorted(done, key=lambda completion: completion.key)


@pytest.fixture
def models() -> Iterator[Any]:
    made: list[OpenAIModel] = []

    def make(server: servers.Server, **settings: Any) -> OpenAIModel:
        made.append(OpenAIModel(server.url, "tiny", **{**FAST, **settings}))
        return made[-1]

    yield make
    for model in made:
        model.close()


def test_a_completion_says_what_the_server_said(models: Any) -> None:
    with serving(ok("The answer is 4.")) as server:
        (completion,) = ask(models(server), request(seed=2**40 + 5))
        (seen,) = server.seen
    assert (completion.key, completion.text, completion.finish) == ("a", "The answer is 4.", "stop")
    assert (completion.prompt_tokens, completion.completion_tokens) == (7, 3)
    assert (completion.ids, completion.logprobs, completion.kept_logprobs) == (None, None, None)
    assert completion.seconds > 0
    assert seen.path == "/v1/chat/completions"
    assert "Authorization" not in seen.headers
    assert seen.body == {
        "model": "tiny",
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 16,
        "temperature": 0.6,
        "top_p": 0.95,
        "top_k": 20,
        "seed": 5,
        "stream": False,
    }


def test_nothing_in_flight_collects_nothing(models: Any) -> None:
    with serving(ok()) as server:
        assert models(server).collect() == []


def test_calls_are_concurrent_up_to_the_limit_and_reuse_connections(models: Any) -> None:
    with serving(servers.after(0.05, ok())) as server:
        done = ask(models(server, concurrency=4), *(request(f"k{i:02d}") for i in range(16)))
        assert [completion.key for completion in done] == [f"k{i:02d}" for i in range(16)]
        assert all(completion.finish == "stop" for completion in done)
        assert 2 <= server.most <= 4
        assert len({seen.connection for seen in server.seen}) <= 4


def test_completions_come_when_they_are_there(models: Any) -> None:
    release = threading.Event()

    def slow(handler: servers.Handler) -> None:
        release.wait(5)
        ok("slow")(handler)

    with serving(slow, ok("quick")) as server:
        model = models(server, concurrency=2)
        model.submit(request("first"))
        while not server.seen:
            time.sleep(0.002)
        model.submit(request("second"))
        (quick,) = model.collect()
        assert (quick.key, quick.text) == ("second", "quick")
        release.set()
        (slow_one,) = model.collect()
        assert (slow_one.key, slow_one.text) == ("first", "slow")
        assert model.collect() == []


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(answer(429, {"error": {"message": "slow down"}}), id="429"),
        pytest.param(answer(500, b"oops"), id="500"),
        pytest.param(answer(503, {"error": "loading"}), id="503"),
        pytest.param(servers.hang_up, id="hang_up"),
        pytest.param(servers.truncated, id="truncated"),
        pytest.param(servers.truncated_chunks, id="truncated_chunks"),
        pytest.param(servers.no_http, id="no_http"),
        pytest.param(answer(200, b'{"choices": [{"mess'), id="malformed_json"),
        pytest.param(answer(200, b"\xff\xfe"), id="no_utf8"),
        pytest.param(answer(200, b"[" * 100_000), id="deep_json"),
        pytest.param(answer(200, {"error": {"message": "upstream", "code": 502}}), id="wrapped_502"),
        pytest.param(ok("half", finish_reason="abort"), id="abort"),
    ],
)
def test_what_may_pass_is_tried_again(models: Any, failure: servers.Behaviour) -> None:
    with serving(failure, failure, ok("at last")) as server:
        (completion,) = ask(models(server), request())
        assert (completion.finish, completion.text) == ("stop", "at last")
        assert len(server.seen) >= 3
        assert all(seen.body == server.seen[0].body for seen in server.seen)


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        pytest.param(
            answer(400, {"error": {"message": "top_k is unknown"}}), "400 Bad Request: top_k is unknown", id="400"
        ),
        pytest.param(answer(404, b"no"), "does the base URL end in /v1", id="404"),
        pytest.param(answer(401, {"detail": "who?"}), "OPENAI_API_KEY .api_key_env. is not set", id="401"),
        pytest.param(
            answer(429, {"error": {"message": "pay first", "code": "insufficient_quota"}}),
            "insufficient_quota",
            id="quota",
        ),
        pytest.param(answer(200, {"choices": []}), "returned 0 choices", id="no_choice"),
        pytest.param(answer(200, {"object": "list"}), r"no chat completion.*choices", id="no_choices"),
        pytest.param(answer(200, servers.completion(7)), r"Expected `str \| null`, got `int`", id="type"),  # type: ignore[arg-type]
        pytest.param(answer(200, [1]), "no chat completion", id="list"),
        pytest.param(ok("half", finish_reason="content_filter"), "content filter", id="filter"),
        pytest.param(ok("half", finish_reason=None), "finish_reason None", id="no_reason"),
        pytest.param(answer(200, {"error": {"message": "bad"}}), "answered with an error: bad", id="wrapped_error"),
    ],
)
def test_what_will_not_pass_is_an_error_at_once(models: Any, failure: servers.Behaviour, said: str) -> None:
    with serving(failure) as server:
        (completion,) = ask(models(server), request())
        assert (completion.finish, completion.text, completion.ids) == ("error", "", None)
        assert len(server.seen) == 1
    with pytest.raises(AssertionError, match=said):
        raise AssertionError(completion.error)


def test_after_the_retries_it_is_an_error(models: Any) -> None:
    with serving(answer(500, {"error": {"message": "still broken"}})) as server:
        (completion,) = ask(models(server, max_retries=2), request())
        assert len(server.seen) == 3
    assert completion.finish == "error"
    assert completion.error == "the server answered 500 Internal Server Error: still broken (3 tries)"


def test_retry_after_is_honoured_by_all_threads(models: Any) -> None:
    with serving(answer(429, {}, {"Retry-After": "0.4"}), ok()) as server:
        model = models(server, concurrency=2)
        model.submit(request("a"))
        while not server.seen:
            time.sleep(0.002)
        while model._pace._next < server.seen[0].at + 0.3:  # until the refusal has been read
            time.sleep(0.002)
        done = ask(model, request("b"))
        assert [completion.finish for completion in done] == ["stop", "stop"]
        first, second, third = (seen.at for seen in server.seen)
        assert min(second, third) - first >= 0.39


def test_a_wait_beyond_patience_is_an_error_that_says_so(models: Any) -> None:
    with serving(answer(429, {"error": "wait"}, {"Retry-After": "3600"})) as server:
        (completion,) = ask(models(server, patience_seconds=2.0), request())
        assert len(server.seen) == 1
    assert "429 Too Many Requests: wait; the server asks to wait for 3600 s" in completion.error


def test_refusals_for_the_rate_are_bounded_by_patience_alone(models: Any) -> None:
    refused = answer(429, {"error": "too fast"})
    with serving(*[refused] * 6, ok()) as server:
        (completion,) = ask(models(server, max_retries=0, backoff_seconds=0.002), request())
        assert completion.finish == "stop"
        assert len(server.seen) == 7


def test_calls_keep_the_rate_that_was_set(models: Any) -> None:
    with serving(ok()) as server:
        ask(models(server, requests_per_minute=600), *(request(f"k{i}") for i in range(4)))
        times = [seen.at for seen in server.seen]
    assert all(later - earlier > 0.08 for earlier, later in itertools.pairwise(times))


@pytest.mark.parametrize("behaviour", [servers.after(6.0, ok()), servers.dribble], ids=["silent", "dribble"])
def test_a_try_ends_at_its_deadline_however_the_bytes_come(models: Any, behaviour: servers.Behaviour) -> None:
    with serving(behaviour) as server:
        began = time.monotonic()
        (completion,) = ask(models(server, timeout_seconds=0.3, max_retries=1), request())
        assert 0.55 < time.monotonic() - began < 4.0
        assert len(server.seen) == 2
    assert completion.finish == "error"
    assert "within 0.3 s (2 tries)" in completion.error


@pytest.mark.parametrize("behaviour", [answer(200, b"x" * 100_001), servers.endless], ids=["announced", "endless"])
def test_a_body_that_is_too_long_is_not_read(models: Any, behaviour: servers.Behaviour) -> None:
    with serving(behaviour) as server:
        (completion,) = ask(models(server, max_body_bytes=100_000), request())
        assert len(server.seen) == 1
    assert "too long" in completion.error
    assert "max_body_bytes=100000" in completion.error


def test_a_connection_that_the_server_closed_meanwhile_costs_no_try(models: Any) -> None:
    def last_words(handler: servers.Handler) -> None:
        ok("one")(handler)
        handler.close_connection = True  # without saying so in a header

    with serving(last_words, ok("two")) as server:
        model = models(server, max_retries=0)
        assert ask(model, request("a"))[0].text == "one"
        time.sleep(0.05)
        assert ask(model, request("b"))[0].text == "two"


def test_nobody_listens(models: Any) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        model = OpenAIModel(f"http://127.0.0.1:{unused.getsockname()[1]}/v1", "tiny", **{**FAST, "max_retries": 1})
        (completion,) = ask(model, request())
        model.close()
    assert completion.finish == "error"
    assert "ConnectionRefusedError" in completion.error


# ---- the key


def test_the_key_is_sent_and_nowhere_else(models: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", SECRET)
    echo = answer(400, {"error": {"message": f"Incorrect API key provided: {SECRET}, or sk-other*****1234."}})
    with serving(ok(), echo) as server:
        model = models(server, api_key_env="MY_KEY")
        ask(model, request("a"))
        (completion,) = ask(model, request("b"))
        assert server.seen[0].headers["Authorization"] == f"Bearer {SECRET}"
    assert completion.error == "the server answered 400 Bad Request: Incorrect API key provided: [key], or [key]."
    assert SECRET not in repr(model) + repr(vars(model)) + repr(vars(model._key)) + repr(model.settings)
    with pytest.raises(TypeError):
        pickle.dumps(model)
    with pytest.raises(TypeError):
        copy.deepcopy(model)


def test_a_key_cut_by_the_length_limit_is_hidden_too(models: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "zebra-" * 5)
    with serving(answer(400, ("x" * 390 + "zebra-" * 5).encode())) as server:
        (completion,) = ask(models(server), request())
    assert "zebra" not in completion.error


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(models: Any, monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    with serving(ok("stolen")) as other:
        target = f"{other.url}/chat/completions?key={SECRET}"
        with serving(answer(status, b"", {"Location": target})) as server:
            (completion,) = ask(models(server), request())
            assert len(server.seen) == 1
        assert other.seen == []
    assert completion.finish == "error"
    assert f"a redirect to '{other.url}/chat/completions'" in completion.error
    assert SECRET not in completion.error


def test_a_key_that_would_break_the_header_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", f"{SECRET}\r\nX-Evil: 1")
    with pytest.raises(ModelError, match="OPENAI_API_KEY holds characters") as caught:
        OpenAIModel("http://127.0.0.1:1/v1", "tiny")
    assert SECRET not in str(caught.value)


def test_a_key_does_not_cross_the_network_in_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    with pytest.raises(ModelError, match="unencrypted") as caught:
        OpenAIModel("http://node17.cluster:8000/v1", "tiny")
    assert SECRET not in str(caught.value)
    for settings in ({"api_key_env": ""}, {"key_over_plain_http": True}):
        OpenAIModel("http://node17.cluster:8000/v1", "tiny", **settings).close()
    OpenAIModel("https://node17.cluster/v1", "tiny").close()


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for 127.0.0.1 that signs itself, with its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    pem = tmp_path / "server.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command, "-keyout", pem, "-out", tmp_path / "cert.pem"], check=True, capture_output=True)
    pem.write_bytes(pem.read_bytes() + (tmp_path / "cert.pem").read_bytes())
    return pem


@pytest.fixture
def encrypted(certificate: Path) -> Iterator[servers.Server]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with serving(ok("secretly"), servers.after(8.0, ok()), context=context) as server:
        yield server


def test_a_certificate_that_is_not_trusted_ends_it(encrypted: servers.Server) -> None:
    model = OpenAIModel(encrypted.url, "tiny", **FAST)
    (completion,) = ask(model, request())
    model.close()
    assert completion.finish == "error"
    assert "is not trusted: self-signed certificate" in completion.error
    assert encrypted.seen == []


def test_encrypted_calls_work_and_end_at_once(
    encrypted: servers.Server, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    model = OpenAIModel(encrypted.url, "tiny", concurrency=1, timeout_seconds=10.0)
    assert ask(model, request())[0].text == "secretly"
    model.submit(request("waits"))
    while len(encrypted.seen) < 2:
        time.sleep(0.002)
    assert encrypted.seen[0].connection == encrypted.seen[1].connection
    began = time.monotonic()
    model.close()
    assert time.monotonic() - began < 2.0
    assert not any(thread.is_alive() for thread in model._threads)


# ---- closing and refusing


_WAIT = """
import sys
from spade_gym.models.base import Message, ModelRequest, Sampling
from spade_gym.models.openai_model import OpenAIModel

model = OpenAIModel(sys.argv[1], "tiny", api_key_env="")
model.submit(ModelRequest("a", (Message("user", "hi"),), Sampling(), seed=1))
try:
    model.collect()
except KeyboardInterrupt:
    model.close()
    print("interrupted")
"""


def test_an_interrupt_ends_the_wait_at_once() -> None:
    with serving(servers.after(8.0, ok())) as server:
        command = [sys.executable, "-c", _WAIT, server.url]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            while not server.seen:
                time.sleep(0.01)
            time.sleep(0.1)
            process.send_signal(signal.SIGINT)
            began = time.monotonic()
            said, _ = process.communicate(timeout=10)
    assert time.monotonic() - began < 4.0
    assert (said, process.returncode) == ("interrupted\n", 0)


def test_close_does_not_wait_for_the_server() -> None:
    with serving(servers.after(8.0, ok())) as server:
        model = OpenAIModel(server.url, "tiny", concurrency=4)
        for number in range(8):
            model.submit(request(f"k{number}"))
        while len(server.seen) < 4:
            time.sleep(0.002)
        began = time.monotonic()
        model.close()
        assert time.monotonic() - began < 2.0
        assert model.collect() == []
        model.close()
        with pytest.raises(ModelError, match="is closed"):
            model.submit(request("late"))
        assert not any(thread.is_alive() for thread in model._threads)


def test_close_ends_a_wait_between_tries() -> None:
    with serving(answer(500, b"")) as server:
        model = OpenAIModel(server.url, "tiny", backoff_seconds=60.0)
        model.submit(request())
        while not server.seen:
            time.sleep(0.002)
        began = time.monotonic()
        model.close()
        assert time.monotonic() - began < 2.0
        assert not any(thread.is_alive() for thread in model._threads)


def test_two_requests_in_flight_cannot_share_a_key(models: Any) -> None:
    with serving(servers.after(0.2, ok())) as server:
        model = models(server)
        model.submit(request("a"))
        with pytest.raises(ModelError, match="key 'a' is already in flight"):
            model.submit(request("a"))
        model.collect()
        assert ask(model, request("a"))[0].finish == "stop"


def test_a_mistake_on_our_side_is_raised_by_collect(models: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(ok()) as server:
        model = models(server, api_key_env="MY_KEY")
        monkeypatch.setenv("MY_KEY", "two words")
        model.submit(request())
        with pytest.raises(ModelError, match="MY_KEY holds characters"):
            model.collect()
        assert model.collect() == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"concurrent": 3}, "did you mean 'concurrency'"),
        ({"concurrency": 0}, "from 1 to 1024, got 0"),
        ({"timeout_seconds": 0}, "timeout_seconds must be positive"),
        ({"timeout_seconds": float("nan")}, "timeout_seconds must be positive"),
        ({"max_retries": -1}, "max_retries must be 0 or more"),
        ({"requests_per_minute": 0}, "requests_per_minute must be positive or None"),
        ({"thoughts_in_history": "keep"}, "one of drop, text, field"),
        ({"server_logprobs": "raw"}, "needs token_ids=True"),
        ({"omit": ("messages",)}, "cannot change messages"),
        ({"extra_body": {"stream": True}}, "cannot change stream"),
        ({"omit": "seed"}, "must be a tuple"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        OpenAIModel("http://127.0.0.1:1/v1", "tiny", **settings)


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:8000",
        "ftp://host/v1",
        "http:///v1",
        "http://host:99999/v1",
        "http://user:secret@host/v1",
        "http://host/v1?key=secret",
        "http://host/v 1",
        "http://host/v1\r\nX: 1",
        "",
    ],
)
def test_what_is_no_base_url_is_refused(url: str) -> None:
    with pytest.raises(ModelError, match="base URL") as caught:
        OpenAIModel(url, "tiny")
    assert "secret" not in str(caught.value)


def test_the_waits_grow_and_depend_on_the_key_alone() -> None:
    settings = OpenAISettings(backoff_seconds=1.0)
    waits = [backoff(settings, key="play-7", num_failures=count) for count in range(1, 12)]
    assert waits == [backoff(settings, key="play-7", num_failures=count) for count in range(1, 12)]
    assert all(0.5 * 2**i <= wait <= 2**i for i, wait in enumerate(waits[:6]))
    assert all(30 <= wait <= 60 for wait in waits[6:])
    assert waits[0] != backoff(settings, key="play-8", num_failures=1)


def test_a_lone_surrogate_is_sent_as_a_question_mark(models: Any) -> None:
    with serving(ok()) as server:
        assert ask(models(server), request(text="a\ud800b"))[0].finish == "stop"
        assert server.seen[0].body["messages"][0]["content"] == "a?b"


@pytest.mark.parametrize("size", ["-1", "-5", "-ffffffff", "zz", "", "7fffffffffffffff"])
def test_a_chunk_size_that_is_none_is_one_failed_try_of_one_call(models: Any, size: str) -> None:
    with serving(servers.chunk(size, b"hello\r\n"), ok("late"), ok("other")) as server:
        model = models(server, concurrency=1)
        completions = ask(model, request("a"), request("b"))
    assert [(said.text, said.error) for said in completions] == [("late", ""), ("other", "")]
    assert len(server.seen) == 3


def test_a_negative_chunk_does_not_get_around_the_longest_body(models: Any) -> None:
    endless = servers.chunk("-1", b"x" * 65536, times=10**6)
    with serving(endless) as server:
        began = time.monotonic()
        (completion,) = ask(models(server, max_body_bytes=1 << 20, max_retries=0), request())
    assert completion.finish == "error"
    assert "-1 bytes" in completion.error
    assert time.monotonic() - began < 2


def echo(status: int, make: Any, headers: Any = None) -> servers.Behaviour:
    """Answer with a body and headers that are made of the key that came."""

    def behave(handler: servers.Handler) -> None:
        key = handler.headers["Authorization"].removeprefix("Bearer ")
        answer(status, make(key), headers(key) if headers else None)(handler)

    return behave


@pytest.mark.parametrize(
    "leak",
    [
        servers.echo_in_status_line,
        echo(200, lambda key: servers.completion(finish_reason=key)),
        echo(200, lambda key: servers.completion(finish_reason="x" * 50 + key)),
        echo(200, lambda key: {**servers.completion(), "choices": [], "model": key}),
        echo(200, lambda key: {"error": {"message": f"no model {key}"}}),
        echo(200, lambda key: {"error": {"reason": [key]}}),
        echo(200, lambda key: f"<html>{key}".encode()),
        echo(400, lambda key: {"error": {"code": key}}),
        echo(400, lambda key: {"model": key}),
        echo(400, lambda key: b"x" * 390 + key.encode()),
        echo(307, lambda key: b"", lambda key: {"Location": f"http://example.com/{key}"}),
    ],
)
@pytest.mark.parametrize("secret", ["sekret-4f9c2e71aa", "it's\"a\\4f9c2e71aa/+="])
def test_a_server_that_echoes_the_key_does_not_put_it_into_errors(
    models: Any, monkeypatch: pytest.MonkeyPatch, leak: servers.Behaviour, secret: str
) -> None:
    monkeypatch.setenv("A_KEY", secret)
    with serving(leak) as server:
        (completion,) = ask(models(server, api_key_env="A_KEY", max_retries=0), request())
        assert server.seen[0].headers["Authorization"] == f"Bearer {secret}"
    assert completion.finish == "error"
    assert completion.error
    assert secret[:5] not in completion.error


def test_a_wait_that_one_call_was_asked_for_holds_the_others_for_no_longer_than_patience(models: Any) -> None:
    busy = answer(503, {}, {"Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT"})
    with serving(busy, ok()) as server:
        model = models(server, concurrency=1, patience_seconds=0.5)
        first, second = ask(model, request("a"), request("b"))
    assert "asks to wait for 1e+09 s" in first.error
    assert second.text == "hello"


def test_a_models_name_that_no_report_could_hold_is_refused() -> None:
    with pytest.raises(ModelError, match=r"name 'x\\udc80' is no text"):
        OpenAIModel("http://127.0.0.1:1/v1", "x\udc80")
