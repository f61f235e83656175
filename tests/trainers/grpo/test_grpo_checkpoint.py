from __future__ import annotations

import json

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from grpo_policies import engine, mixed_batch, sampled, tiny

from spade_gym.models.transformers_model import TransformersModel
from spade_trainers.grpo.policy import GrpoError
from spade_trainers.grpo.trainer import make

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

OPTIONS = {"learning_rate": 0.01, "minibatches": 3, "kl": 0.1}


def weights(trainer) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in trainer._policy.model.named_parameters()}


def make_trainer(dtype=torch.float32, **options):
    player = engine(tiny().to(dtype))
    return player, make(player, {**OPTIONS, **options})


def cycle(player, trainer, rollouts) -> list[dict[str, float]]:
    """Sample, learn, sample …, as a run does."""
    found = []
    for rollout in rollouts:
        metrics = dict(trainer.update(mixed_batch(player.model, seed=rollout)))
        found.append({name: value for name, value in metrics.items() if "second" not in name})
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_resumed_trainer_ends_with_the_same_weights_bit_for_bit(tmp_path, dtype):
    player, trainer = make_trainer(dtype)
    expected = cycle(player, trainer, range(2))
    trainer.save(tmp_path)
    expected = cycle(player, trainer, range(2, 5))
    other_player, other = make_trainer(dtype)
    other.load(tmp_path)
    assert other_player.policy_version == 2
    assert cycle(other_player, other, range(2, 5)) == expected
    assert other_player.policy_version == player.policy_version == 5
    for name, value in weights(trainer).items():
        assert torch.equal(value, weights(other)[name]), name
    for name, value in trainer._optimiser.state().items():
        assert torch.equal(value, other._optimiser.state()[name]), name


def test_one_saved_before_its_first_update_can_be_loaded(tmp_path):
    player, trainer = make_trainer()
    trainer.save(tmp_path)
    expected = cycle(player, trainer, range(1))
    again_player, again = make_trainer()
    cycle(again_player, again, range(2))
    again.load(tmp_path)
    assert cycle(again_player, again, range(1)) == expected


@pytest.mark.parametrize("tied", [False, True])
def test_a_checkpoint_is_a_model_that_can_be_opened(tmp_path, tied):
    model = tiny(tie_word_embeddings=tied)
    player = engine(model)
    trainer = make(player, OPTIONS)
    cycle(player, trainer, range(1))
    trainer.save(tmp_path)
    opened = TransformersModel.open(str(tmp_path), end_ids=())
    assert sampled(opened, [[2, 3]], seed=4, tokens=9)[0].ids == sampled(player, [[2, 3]], seed=4, tokens=9)[0].ids
    with torch.no_grad():
        ids = torch.tensor([[2, 3, 4]])
        assert torch.equal(opened.model(input_ids=ids).logits, model(input_ids=ids).logits)


def test_what_is_no_checkpoint_of_these_weights_is_refused_and_changes_nothing(tmp_path):
    _, trainer = make_trainer()
    with pytest.raises(GrpoError, match="holds no checkpoint of this trainer"):
        trainer.load(tmp_path)
    small = engine(tiny(hidden_size=16))
    make(small, OPTIONS).save(tmp_path)
    before = weights(trainer)
    with pytest.raises(GrpoError, match=r"is \(16, 16\) torch.float32, the model's is \(16, 32\)"):
        trainer.load(tmp_path)
    assert all(torch.equal(value, before[name]) for name, value in weights(trainer).items())
    deep = engine(tiny(num_hidden_layers=3))
    make(deep, OPTIONS).save(tmp_path)
    with pytest.raises(GrpoError, match=r"only one of them has 'model\.layers\.2"):
        trainer.load(tmp_path)


def test_a_damaged_file_is_told(tmp_path):
    player, trainer = make_trainer()
    cycle(player, trainer, range(1))
    trainer.save(tmp_path)
    path = tmp_path / "optimiser.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(GrpoError, match=r"optimiser\.safetensors is damaged"):
        trainer.load(tmp_path)
    trainer.save(tmp_path)
    state = json.loads((tmp_path / "trainer.json").read_text())
    (tmp_path / "trainer.json").write_text(json.dumps({**state, "format": 9}))
    with pytest.raises(GrpoError, match="of format 9, this version reads 1"):
        trainer.load(tmp_path)
