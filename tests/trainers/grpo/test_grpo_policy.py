from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from grpo_policies import VOCABULARY, mixed_batch, tiny
from transformers import (
    CohereConfig,
    CohereForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    MistralConfig,
    MistralForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from spade_trainers.grpo.packing import pieces_of
from spade_trainers.grpo.policy import GrpoError, Policy
from spade_trainers.grpo.settings import GrpoSettings

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def pieces(model) -> list:
    return [
        one
        for number, item in enumerate(mixed_batch(model).trajectories)
        for one in pieces_of(item, number, policy_version=0)
    ]


def alone(model, piece, temperature: float) -> torch.Tensor:
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([piece.ids])).logits[0, list(piece.places)].float() / temperature
    return logits.log_softmax(-1)[range(len(piece.targets)), list(piece.targets)]


MODELS = {
    "llama": lambda: tiny(),
    "tied": lambda: tiny(tie_word_embeddings=True),
    "qwen3": lambda: tiny(Qwen3ForCausalLM, Qwen3Config, head_dim=8),
    "mistral": lambda: tiny(MistralForCausalLM, MistralConfig, sliding_window=None),
    "gpt2": lambda: tiny(GPT2LMHeadModel, GPT2Config, n_embd=32, n_layer=2, n_head=4, n_positions=128),
}


@pytest.mark.parametrize("layout", ["auto", "rows"])
@pytest.mark.parametrize("name", MODELS)
def test_samples_computed_together_get_what_each_gets_alone(name, layout):
    model = MODELS[name]()
    policy = Policy(model, GrpoSettings(layout=layout))
    assert policy.layout == ("packed" if layout == "auto" else "rows")
    held = pieces(model)
    arranged = policy.arrange(held)
    with policy.computing():
        found = policy.score(arranged, torch.full((len(arranged.places),), 0.7))
    expected = torch.cat([alone(model, piece, 0.7) for piece in held])
    assert torch.allclose(found.logprobs, expected, atol=1e-5)


def test_the_engine_finds_the_model_as_it_was():
    model = tiny()
    policy = Policy(model, GrpoSettings(gradient_checkpointing=True))
    with policy.computing():
        assert model.training
        assert model.config._attn_implementation == "spade_packed"
    assert not model.training
    assert model.config._attn_implementation == "sdpa"


def test_windows_of_attention_are_computed_in_rows():
    model = tiny(MistralForCausalLM, MistralConfig, sliding_window=4)
    assert Policy(model, GrpoSettings()).layout == "rows"
    held = pieces(model)
    policy = Policy(model, GrpoSettings())
    arranged = policy.arrange(held)
    with policy.computing():
        found = policy.score(arranged, torch.ones(len(arranged.places)))
    expected = torch.cat([alone(model, piece, 1.0) for piece in held])
    assert torch.allclose(found.logprobs, expected, atol=1e-5)
    with pytest.raises(GrpoError, match=r"MistralForCausalLM cannot be packed: .* use layout = 'auto' or 'rows'"):
        Policy(model, GrpoSettings(layout="packed"))


@pytest.mark.parametrize(
    ("kind", "config", "changes"),
    [
        (CohereForCausalLM, CohereConfig, {"logit_scale": 0.25}),
        (Gemma2ForCausalLM, Gemma2Config, {"final_logit_softcapping": 2.0, "head_dim": 8}),
    ],
)
def test_models_that_change_their_logits_are_refused(kind, config, changes):
    model = tiny(kind, config, pad_token_id=0, **changes)
    with pytest.raises(GrpoError, match="does not give its own log-probabilities"):
        Policy(model, GrpoSettings())


def test_dropout_and_checkpointing_do_not_go_together():
    with pytest.raises(
        GrpoError, match=r"gradient_checkpointing needs a model without dropout, got .*attention_dropout"
    ):
        Policy(tiny(attention_dropout=0.1), GrpoSettings(gradient_checkpointing=True))
    assert Policy(tiny(attention_dropout=0.1), GrpoSettings()).vocabulary == VOCABULARY
