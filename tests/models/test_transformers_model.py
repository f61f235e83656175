from __future__ import annotations

import dataclasses
import math

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from chat_tokenizers import tokenizer_of
from tiny_models import MAX_CONTEXT, answers, made, request, tiny_llama
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    MambaConfig,
    MambaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from spade_gym.models.base import Message, ModelError, Sampling
from spade_gym.models.chat import start_chat
from spade_gym.models.transformers_model import TransformersModel
from spade_gym.testing import check_language_model

# What importing and building models of transformers may say is not ours.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture
def llama():
    return tiny_llama()


def opened(llama, **settings) -> TransformersModel:
    return TransformersModel(llama, tokenizer_of("chatml"), **settings)


def prompts(count: int, *, length: int = 20) -> list[list[int]]:
    """Prompts of lengths from 1 on that have nothing in common."""
    return [
        [10 + (7 * number + 3 * place) % 90 for place in range(1 + (5 * number) % length)] for number in range(count)
    ]


def expected_logprobs(llama, prompt, completion, temperature):
    ids = torch.tensor([[*prompt, *completion.ids]])
    with torch.no_grad():
        logits = llama(ids, use_cache=False).logits[0, len(prompt) - 1 : -1].float()
    scores = (logits / (temperature or 1.0)).log_softmax(-1)
    return [scores[place, token].item() for place, token in enumerate(completion.ids)]


def test_it_keeps_the_promises_of_a_language_model(llama):
    check_language_model(opened(llama, max_batch=3))


def test_rows_of_any_lengths_get_what_each_gets_alone_and_the_log_probabilities_of_a_full_pass(llama):
    asked = [request(str(n), ids, seed=n, max_tokens=1 + n % 9) for n, ids in enumerate(prompts(24))]
    together = answers(opened(llama, max_batch=5, end_ids=()), asked)
    alone_model = opened(llama, end_ids=(), reuse_tokens=0)
    for item in asked:
        alone = answers(alone_model, [item])[item.key]
        found = together[item.key]
        assert found.ids == alone.ids
        assert found.finish == "length"
        assert found.completion_tokens == item.sampling.max_tokens
        assert found.prompt_tokens == len(item.prompt_ids)
        assert found.logprobs == pytest.approx(expected_logprobs(llama, item.prompt_ids, found, 1.0), abs=1e-4)


def test_two_models_that_are_called_alike_answer_bit_for_bit_alike(llama):
    asked = [request(str(n), ids, seed=n, temperature=0.7) for n, ids in enumerate(prompts(12))]
    first, second = (answers(opened(llama, max_batch=4), asked) for _ in range(2))
    assert [dataclasses.replace(first[key], seconds=0.0) for key in first] == [
        dataclasses.replace(second[key], seconds=0.0) for key in second
    ]


def test_the_seed_and_nothing_else_makes_answers_to_one_prompt_differ(llama):
    asked = [request(str(n), [11, 12, 13], seed=n % 4) for n in range(8)]
    found = answers(opened(llama), asked)
    assert [found[str(n)].ids for n in range(4)] == [found[str(n + 4)].ids for n in range(4)]
    assert len({completion.ids for completion in found.values()}) == 4


def test_settings_of_one_batch_may_differ(llama):
    kinds = [
        {"temperature": 0.0},
        {"top_k": 1},
        {"top_p": 0.5, "top_k": 0},
        {"temperature": 3.0, "top_k": 0, "top_p": 1.0},
    ]
    asked = [request(str(n), [20, 21, 22], **kind) for n, kind in enumerate(kinds)]
    together = answers(opened(llama, end_ids=()), asked)
    assert together["0"].ids == together["1"].ids
    assert together["0"].kept_logprobs == (0.0,) * 8
    assert together["1"].kept_logprobs == pytest.approx([0.0] * 8)
    assert together["3"].logprobs == pytest.approx(together["3"].kept_logprobs, abs=1e-5)
    for n, item in enumerate(asked):
        assert together[str(n)].ids == answers(opened(llama, end_ids=()), [item])[str(n)].ids


@pytest.mark.parametrize("reuse_tokens", [0, 1000])
def test_prompts_that_begin_alike_get_the_same_with_and_without_what_was_read_before(llama, reuse_tokens):
    rules = [30 + place % 50 for place in range(40)]
    model = opened(llama, max_batch=4, end_ids=(), reuse_tokens=reuse_tokens)
    asked = [request(str(n), [*rules, 90 - n, *range(30, 30 + n)], seed=n) for n in range(8)]
    first = answers(model, asked)
    longer = [
        dataclasses.replace(item, prompt_ids=(*item.prompt_ids, *first[item.key].ids, 40, 41, 42)) for item in asked
    ]
    second = answers(model, longer)
    for item, found in [(item, first) for item in asked] + [(item, second) for item in longer]:
        logprobs = expected_logprobs(llama, item.prompt_ids, found[item.key], 1.0)
        assert found[item.key].logprobs == pytest.approx(logprobs, abs=1e-4)


def test_a_prompt_that_was_read_before_is_not_read_again(llama):
    model = opened(llama, end_ids=())
    seen = []
    llama.register_forward_pre_hook(lambda _, args, kwargs: seen.append(kwargs["input_ids"].numel()), with_kwargs=True)
    prompt = list(range(20, 60))
    said = answers(model, [request("a", prompt, max_tokens=4)])["a"]
    assert sum(seen) == 39 + 4
    seen.clear()
    answers(model, [request("b", [*prompt, *said.ids, 20, 21], max_tokens=1)])
    assert sum(seen) == 3  # the last sampled token was not read yet
    seen.clear()
    answers(model, [request(str(n), list(range(60, 20, -1)), seed=n, max_tokens=1) for n in range(3)])
    assert sum(seen) == 39 + 3


def test_an_end_token_ends_a_completion_and_is_part_of_its_ids_alone(llama):
    tokenizer = tokenizer_of("chatml")
    asked = [request(str(n), [20 + n], seed=n, max_tokens=200, top_k=0, top_p=1.0) for n in range(20)]
    found = answers(opened(llama), asked).values()
    stopped = [completion for completion in found if completion.finish == "stop"]
    assert stopped
    for completion in stopped:
        assert completion.ids[-1] == tokenizer.eos_token_id
        assert tokenizer.eos_token_id not in completion.ids[:-1]
        assert completion.text == tokenizer.decode(completion.ids[:-1])


def test_a_stop_text_may_lie_across_tokens_and_stays_in_the_text(llama):
    model = opened(llama, end_ids=())
    whole = answers(model, [request("whole", [33, 34], max_tokens=40, temperature=0.0)])["whole"]
    for begin in range(0, len(whole.text) - 5, 3):
        stop = whole.text[begin : begin + 4]
        if "\ufffd" in stop:
            continue
        found = answers(model, [request("stop", [33, 34], max_tokens=40, temperature=0.0, stop=("@@@", stop))])["stop"]
        assert found.finish == "stop"
        end = whole.text.index(stop) + 4
        assert found.text[:end] == whole.text[:end]
        assert stop not in tokenizer_of("chatml").decode(found.ids[:-1])


def test_a_full_context_cuts_a_completion_off(llama):
    ids = [20 + place % 70 for place in range(MAX_CONTEXT - 3)]
    found = answers(opened(llama, end_ids=()), [request("a", ids, max_tokens=50)])["a"]
    assert (found.finish, found.completion_tokens) == ("length", 3)


def test_a_row_that_outgrows_the_cache_goes_back_to_the_queue_and_loses_nothing():
    llama = tiny_llama(max_position_embeddings=1024)
    asked = [request(str(n), [20 + n, 21], seed=n, max_tokens=320) for n in range(2)]
    roomy = answers(opened(llama, end_ids=()), asked)
    # 2 layers * (keys, values) * 2 heads * 8 numbers * 4 bytes = 256 bytes a token: two rows fit up to 300 tokens each.
    tight = opened(llama, end_ids=(), cache_gib=600 * 256 / 2**30)
    rows, taken = [], []

    def look(_, args, kwargs):
        rows.append(kwargs["input_ids"].shape[0])
        taken.append(rows[-1] * (int(kwargs["position_ids"].max()) + 1))

    llama.register_forward_pre_hook(look, with_kwargs=True)
    found = answers(tight, asked)
    assert {key: said.ids for key, said in found.items()} == {key: said.ids for key, said in roomy.items()}
    assert max(rows) == 2
    assert 590 <= max(taken) <= 600


def test_damaged_weights_give_errors_and_never_tokens_and_spoil_no_neighbour(llama):
    good = [request(str(n), [20 + n, 31, 32], seed=n, max_tokens=6) for n in range(4)]
    expected = answers(opened(llama, end_ids=()), good)
    with torch.no_grad():
        llama.get_input_embeddings().weight[99] = math.nan
    model = opened(llama, end_ids=(), max_batch=2, reuse_tokens=1000)
    bad = [request(f"bad{n}", [20 + n, *range(30, 55), 99, 40], max_tokens=6) for n in range(2)]
    found = answers(model, [bad[0], good[0], good[1], bad[1], good[2], good[3]])
    for item in bad:
        assert found[item.key].finish == "error"
        assert "not finite" in found[item.key].error
        assert (found[item.key].ids, found[item.key].logprobs) == ((), ())
    assert [found[item.key].ids for item in good] == [expected[item.key].ids for item in good]


def test_new_weights_are_taken_over_counted_and_forget_what_was_read(llama):
    model, other = opened(llama, end_ids=()), tiny_llama(seed=1)
    item = request("a", list(range(20, 60)))
    before = answers(model, [item])["a"]
    model.update_weights(3, other.state_dict().items())
    after = answers(model, [item])["a"]
    assert (before.policy_version, after.policy_version) == (0, 3)
    assert after.ids == answers(opened(other, end_ids=()), [item])["a"].ids != before.ids


def test_new_weights_are_taken_over_whole_or_not_at_all(llama):
    model = opened(llama)
    before = {name: tensor.clone() for name, tensor in llama.state_dict().items()}
    good = ("model.norm.weight", torch.full((32,), 7.0))
    with pytest.raises(ModelError, match=r"'model.nrm.weight'"):
        model.update_weights(1, [good, ("model.nrm.weight", torch.zeros(32))])
    with pytest.raises(ModelError, match=r"shape \(31,\).*\(32,\)"):
        model.update_weights(1, [good, ("model.norm.weight", torch.zeros(31))])
    assert all(torch.equal(before[name], tensor) for name, tensor in llama.state_dict().items())
    model.submit(request("a", [20]))
    with pytest.raises(ModelError, match="in flight"):
        model.update_weights(1, [good])
    assert model.policy_version == 0


def test_a_model_in_training_is_put_back_and_samples_without_dropout():
    llama = tiny_llama(attention_dropout=0.5)
    expected = answers(opened(llama), [request("a", [20, 21])])["a"].ids
    llama.train()
    model = opened(llama)
    assert answers(model, [request("a", [20, 21])])["a"].ids == expected
    assert llama.training
    loss = llama(torch.tensor([[20, 21, 22]]), labels=torch.tensor([[20, 21, 22]])).loss
    loss.backward()
    assert llama.lm_head.weight.grad is not None


def test_chats_go_through_its_own_chat_format(llama):
    model = opened(llama)
    chat = start_chat(model, [Message("user", "Hello")])
    said = answers(model, [chat.request("a", Sampling(max_tokens=5), 1)])["a"]
    chat.complete(said)
    (sample,) = chat.samples()
    assert sum(sample.mask) == len(said.ids)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompt_ids": None}, "no prompt_ids"),
        ({"prompt_ids": (5, 100_000)}, "outside"),
        ({"seed": -1}, "must not be negative"),
        ({"prompt_ids": (20,) * MAX_CONTEXT}, r"at most 255 fit"),
    ],
)
def test_what_cannot_be_taken_is_refused_at_once(llama, change, message):
    model = opened(llama)
    with pytest.raises(ModelError, match=message):
        model.submit(dataclasses.replace(request("a", [20]), **change))
    assert model.collect() == []


def test_a_request_larger_than_the_cache_is_refused(llama):
    with pytest.raises(ModelError, match="raise cache_gib"):
        opened(llama, cache_gib=100 * 256 / 2**30).submit(request("a", [20], max_tokens=200))


@pytest.mark.parametrize("settings", [{"max_batch": 0}, {"reuse_tokens": -1}, {"max_context": 1}, {"max_context": 257}])
def test_settings_out_of_range_are_refused(llama, settings):
    with pytest.raises(ModelError, match=next(iter(settings))):
        opened(llama, **settings)


def small(kind, config, **changes):
    shared = {"vocab_size": len(tokenizer_of("chatml")), "bos_token_id": None, "eos_token_id": None}
    return made(kind, config(**{**shared, **changes}))


LLAMA_LIKE = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "initializer_range": 0.3,
}


@pytest.mark.parametrize(
    "build",
    [
        lambda: small(Qwen3ForCausalLM, Qwen3Config, **LLAMA_LIKE),
        lambda: small(
            Qwen3ForCausalLM, Qwen3Config, **LLAMA_LIKE, use_sliding_window=True, sliding_window=6, max_window_layers=1
        ),
        lambda: small(MistralForCausalLM, MistralConfig, **LLAMA_LIKE, sliding_window=6),
        lambda: small(
            GPT2LMHeadModel, GPT2Config, n_embd=32, n_layer=2, n_head=4, n_positions=64, initializer_range=0.3
        ),
    ],
    ids=["qwen3", "qwen3 with sliding layers", "mistral with a window", "gpt2"],
)
def test_other_families_give_the_log_probabilities_of_a_full_pass(build):
    other = build()
    asked = [request(str(n), ids, seed=n, max_tokens=12) for n, ids in enumerate(prompts(6, length=25))]
    found = answers(opened(other, end_ids=(), max_batch=4), asked)
    for item in asked:
        logprobs = expected_logprobs(other, item.prompt_ids, found[item.key], 1.0)
        assert found[item.key].logprobs == pytest.approx(logprobs, abs=2e-4)


def test_a_model_with_another_kind_of_state_is_refused():
    mamba = small(MambaForCausalLM, MambaConfig, hidden_size=32, num_hidden_layers=2, state_size=4)
    with pytest.raises(ModelError, match="a state other than keys and values"):
        opened(mamba)


def test_a_model_that_a_cache_changes_is_refused(llama):
    forward = llama.model.forward

    def wrong(*args, **kwargs):
        kwargs["position_ids"] = None
        return forward(*args, **kwargs)

    llama.model.forward = wrong
    with pytest.raises(ModelError, match="another distribution with a cache"):
        opened(llama)


def test_a_saved_model_is_opened_from_its_folder(llama, tmp_path):
    llama.save_pretrained(tmp_path)
    tokenizer_of("chatml").save_pretrained(tmp_path)
    model = TransformersModel.open(str(tmp_path), device="cpu", max_batch=2)
    assert model.max_context == MAX_CONTEXT
    item = request("a", [20, 21])
    assert answers(model, [item])["a"].ids == answers(opened(llama), [item])["a"].ids
    with pytest.raises(ModelError, match="dtype must be one of"):
        TransformersModel.open(str(tmp_path), dtype="int8")
    with pytest.raises(ModelError, match="device"):
        TransformersModel.open(str(tmp_path), device="nowhere")


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(ModelError, match="cannot load"):
        TransformersModel.open(str(tmp_path))
