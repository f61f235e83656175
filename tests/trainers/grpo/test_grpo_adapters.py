from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")

import torch
from grpo_policies import engine, mixed_batch, sampled, tiny

from spade_trainers.grpo.trainer import make

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")

OPTIONS = {"learning_rate": 0.02, "lora_rank": 4, "kl": 0.1}


def test_only_adapters_are_trained_and_the_engine_samples_with_them():
    model = tiny()
    before = {name: value.clone() for name, value in model.named_parameters()}
    player = engine(model)
    trainer = make(player, OPTIONS)
    (first,) = sampled(player, [[2, 3]], seed=0, tokens=6)
    metrics = trainer.update(mixed_batch(model))
    assert metrics["agent/kl"] == pytest.approx(0, abs=1e-6)  # adapters begin as nothing
    assert trainer.update(mixed_batch(model, seed=1))["agent/kl"] > 0  # against the weights without them
    (second,) = sampled(player, [[2, 3]], seed=0, tokens=6)
    assert first.logprobs != second.logprobs
    now = {name.replace(".base_layer", ""): value for name, value in model.named_parameters() if "lora" not in name}
    assert now.keys() == before.keys()
    assert all(torch.equal(value, before[name]) for name, value in now.items())


def test_resume_is_exact(tmp_path):
    player, other_player = engine(tiny()), engine(tiny())
    trainer, other = make(player, OPTIONS), make(other_player, OPTIONS)
    trainer.update(mixed_batch(player.model))
    trainer.save(tmp_path)
    other.load(tmp_path)
    assert (tmp_path / "adapter" / "adapter_model.safetensors").is_file()
    for one in (trainer, other):
        one.update(mixed_batch(one._policy.model, seed=1))
    mine, found = (dict(one.model.named_parameters()) for one in (player, other_player))
    assert all(torch.equal(value, found[name]) for name, value in mine.items())
