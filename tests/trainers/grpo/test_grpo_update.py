from __future__ import annotations

import dataclasses
import json
import logging
import math

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from grpo_policies import batch, engine, mixed_batch, sample, sampled, tiny, trajectory
from transformers import GPT2Config, GPT2LMHeadModel

from spade_gym.errors import SpadeError
from spade_gym.models.sample import Sample
from spade_gym.testing_trainers import check_trainer
from spade_trainers.grpo.aggregation import token_coefficients
from spade_trainers.grpo.loss import Tokens, token_loss
from spade_trainers.grpo.policy import GrpoError
from spade_trainers.grpo.settings import GrpoSettings
from spade_trainers.grpo.trainer import make
from spade_trainers.grpo.update import GrpoTrainer

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

#: Of rate 1e-30, so that weights stay and gradients can be looked at.
STILL = {"learning_rate": 1e-30, "max_grad_norm": 1e30, "weight_decay": 0.0}


def watched(model, **options) -> tuple[GrpoTrainer, dict[str, torch.Tensor]]:
    """A trainer that tells the gradient with which it stepped last."""
    trainer = make(engine(model), {**STILL, **options})
    seen: dict[str, torch.Tensor] = {}
    step = trainer._optimiser.step

    def telling() -> None:
        seen.update((name, value.grad.clone()) for name, value in trainer._optimiser.trained.items())
        step()

    trainer._optimiser.step = telling
    return trainer, seen


def gradient(model, update, **options) -> dict[str, torch.Tensor]:
    trainer, seen = watched(model, **options)
    trainer.update(update)
    return seen


def plain_gradient(model, update, aggregation="group", *, kl=0.0, entropy=0.0, reference=None, cap=2.0):
    """The loss of method, section 7, sample by sample and token by token from whole logits."""
    total = 0.0
    for item, coefficient in zip(
        update.trajectories, token_coefficients(update.trajectories, aggregation), strict=True
    ):
        for held in item.samples:
            ids = torch.tensor([held.ids])
            everything = (model(input_ids=ids).logits[0] / item.temperature).log_softmax(-1)
            others = None
            if reference is not None:
                with torch.no_grad():
                    others = (reference(input_ids=ids).logits[0] / item.temperature).log_softmax(-1)
            for place in range(1, len(held.ids)):
                if not held.mask[place]:
                    continue
                row = everything[place - 1]
                logprob = row[held.ids[place]]
                weight = min(math.exp(logprob.item() - held.logprobs[place]), cap)
                token = -weight * (logprob - logprob.detach()).exp() * item.advantage
                if others is not None:
                    gap = others[place - 1, held.ids[place]] - logprob
                    token = token + kl * (gap.exp() - gap - 1)
                token = token + entropy * (row.exp() * row).sum()
                total = total + coefficient * token
    names, values = zip(*model.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(total, values), strict=True))


def assert_equal(found, expected, *, atol=1e-6):
    assert found.keys() == expected.keys()
    largest = max(value.abs().max().item() for value in expected.values())
    assert largest > 1e-3
    for name, value in expected.items():
        assert torch.allclose(found[name], value, atol=atol * largest, rtol=0), name


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kl": 0.1, "entropy": 0.01, "epochs": 2, "minibatches": 2, "layout": "rows"},
        {"gradient_checkpointing": True, "token_budget": 2},
        {"advantages": "leave-one-out", "drop_equal_groups": True, "aggregation": "token"},
    ],
    ids=lambda options: ",".join(options) or "defaults",
)
def test_it_keeps_the_promises_of_a_trainer(options):
    check_trainer(lambda: make(engine(tiny()), options))


@pytest.mark.parametrize("aggregation", ["token", "sequence", "group"])
def test_the_gradient_is_that_of_the_formula_in_plain_torch(aggregation):
    model = tiny().double()
    update = mixed_batch(model)
    found = gradient(model, update, aggregation=aggregation)
    assert_equal(found, plain_gradient(model, update, aggregation), atol=1e-9)


def test_the_gradient_with_kl_entropy_and_delayed_data_is_that_of_the_formula():
    old, initial, model = tiny(seed=2).double(), tiny(seed=1).double(), tiny(seed=1).double()
    update = mixed_batch(old)  # sampled by other weights: w is 1 nowhere
    trainer, seen = watched(model, kl=0.3, entropy=0.05)
    with torch.no_grad():
        for value in model.parameters():
            value.mul_(1.1)
    metrics = trainer.update(update)
    expected = plain_gradient(model, update, kl=0.3, entropy=0.05, reference=initial)
    assert_equal(seen, expected, atol=1e-9)
    assert 0 < metrics["agent/weight_capped_share"] < 1
    assert metrics["agent/kl"] > 0


@pytest.mark.parametrize("layout", ["packed", "rows"])
@pytest.mark.parametrize("options", [{}, {"kl": 0.1, "entropy": 0.02}, {"gradient_checkpointing": True}])
def test_micro_batches_sum_to_the_gradient_of_the_whole_batch(layout, options):
    model = tiny()
    update = mixed_batch(model)
    whole = gradient(model, update, token_budget=10_000, layout="rows", **options)
    for budget in (1, 13, 40):
        found = gradient(model, update, token_budget=budget, layout=layout, head_mib=1, **options)
        assert_equal(found, whole, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"kl": 0.1, "gradient_checkpointing": True}, {"token_budget": 30}])
def test_shared_beginnings_change_no_gradient(options):
    """Plays of two programs that begin alike, some of them for several sampled tokens."""
    model = tiny()
    player = engine(model)
    prompts = [[2, 3, 4, 5, 6, 7]] * 6 + [[2, 3, 4, 9, 9]] * 4 + [[8, 8]]
    held = sampled(player, prompts, seed=3, tokens=5)
    held += [dataclasses.replace(held[0]), held[1]]
    update = batch(*(trajectory(str(n), one, (-1) ** n * (n + 1) / 4) for n, one in enumerate(held)))
    computed = []
    model.model.register_forward_hook(
        lambda _, __, kwargs, ___: computed.append(kwargs["input_ids"].numel()), with_kwargs=True
    )
    shared = gradient(model, update, least_shared=2, **options)
    del computed[:-1]  # the trial's, and micro-batches but the last
    assert_equal(shared, gradient(model, update, layout="rows", **{"token_budget": 10_000, **options}), atol=1e-5)
    if not options:
        assert computed[0] < sum(len(one.ids) - 1 for one in held) * 0.7


def test_reinforce_is_the_limit_with_the_clip_off_and_one_step():
    """−Σ coefficient · A · ∇log π(token), from PyTorch's own cross entropy."""
    model = tiny().double()
    update = mixed_batch(model)
    found = gradient(model, update, clip=False, weight_cap=0.0, aggregation="token")
    tokens = sum(sum(held.mask) for item in update.trajectories for held in item.samples)
    total = 0.0
    for item in update.trajectories:
        for held in item.samples:
            ids = torch.tensor(held.ids)
            labels = torch.where(torch.tensor(held.mask).bool(), ids, -100)[1:]
            logits = model(input_ids=ids[None]).logits[0, :-1] / item.temperature
            nll = torch.nn.functional.cross_entropy(logits, labels, reduction="sum", ignore_index=-100)
            total = total + item.advantage * nll / tokens
    names, values = zip(*model.named_parameters(), strict=True)
    assert_equal(found, dict(zip(names, torch.autograd.grad(total, values), strict=True)), atol=1e-9)
    assert_equal(gradient(model, update, weight_cap=0.0, aggregation="token"), found, atol=1e-9)


def logprobs_of(model, update) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities of all sampled tokens and entropies at their places, from whole logits."""
    logprobs, entropies = [], []
    for item in update.trajectories:
        for held in item.samples:
            everything = (model(input_ids=torch.tensor([held.ids])).logits[0] / item.temperature).log_softmax(-1)
            places = [place for place, mask in enumerate(held.mask) if mask]
            rows = everything[[place - 1 for place in places]]
            logprobs.append(rows[range(len(places)), [held.ids[place] for place in places]])
            entropies.append(-(rows.exp() * rows).sum(-1))
    return torch.cat(logprobs), torch.cat(entropies)


def test_the_gradient_is_that_of_finite_differences():
    settings = GrpoSettings(kl=0.2, entropy=0.05)
    shape = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128}  # Llama's norms round to single precision
    initial, model = (tiny(GPT2LMHeadModel, GPT2Config, **shape).double() for _ in range(2))
    update = mixed_batch(model)
    trainer, seen = watched(model, kl=0.2, entropy=0.05)
    with torch.no_grad():
        model.transformer.h[0].mlp.c_fc.weight.mul_(1.5)  # away from the initial weights and from those that sampled
        proximal, _ = logprobs_of(model, update)
        reference, _ = logprobs_of(initial, update)
    trainer.update(update)
    coefficients = token_coefficients(update.trajectories, settings.aggregation)
    columns = [
        (coefficient, item.advantage, logprob)
        for item, coefficient in zip(update.trajectories, coefficients, strict=True)
        for held in item.samples
        for mask, logprob in zip(held.mask, held.logprobs, strict=True)
        if mask
    ]
    known = Tokens(*torch.tensor(columns, dtype=torch.float64).T, proximal, reference)

    def loss() -> float:
        return (known.coefficient * token_loss(*logprobs_of(model, update), known, settings).loss).sum().item()

    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, value in model.named_parameters():
            direction = 1e-6 * torch.randn(value.shape, generator=generator, dtype=value.dtype)
            value.add_(direction)
            above = loss()
            value.sub_(2 * direction)
            below = loss()
            value.add_(direction)
            assert (above - below) / 2 == pytest.approx((seen[name] * direction).sum().item(), rel=1e-4, abs=1e-13), (
                name
            )


def test_fresh_data_have_weights_of_one():
    model = tiny()
    update = mixed_batch(model, temperature=0.6)
    trainer = make(engine(model), STILL)
    metrics = trainer.update(update)
    for role in ("agent", "designer"):
        assert metrics[f"{role}/weight"] == pytest.approx(1, abs=1e-4)
        assert metrics[f"{role}/fresh_mismatch"] < 1e-4
        assert metrics[f"{role}/ratio"] == 1.0


def test_a_wrong_temperature_is_seen_and_said(caplog):
    model = tiny()
    update = mixed_batch(model, temperature=0.6)
    wrong = batch(*(dataclasses.replace(item, temperature=1.0) for item in update.trajectories))
    with caplog.at_level(logging.WARNING, "spade_trainers"):
        metrics = make(engine(model), STILL).update(wrong)
    assert metrics["agent/fresh_mismatch"] > 0.1
    assert "do the weights and the temperature agree?" in caplog.text


def test_later_steps_compare_with_the_weights_before_the_first():
    """Two passes over one batch: in the second, ρ is not 1, and π_prox is what the first pass saw."""
    model = tiny()
    trainer = make(engine(model), {"learning_rate": 0.05, "epochs": 2, "minibatches": 2, "clip_high": 0.1})
    seen = []
    loss = trainer._loss

    def telling(arranged, temperatures, tokens):
        result = loss(arranged, temperatures, tokens)
        seen.append((tokens.proximal, arranged.targets, result[1].logprobs))
        return result

    trainer._loss = telling
    update = mixed_batch(model)
    first, _ = logprobs_of(model, update)
    metrics = trainer.update(update)
    (none, *_, start), second, third, fourth = seen
    assert none is None
    assert torch.equal(third[0], start)  # the first pass's own numbers, kept
    found = torch.cat([start, second[0]])
    assert torch.allclose(found.sort().values, first.sort().values, atol=1e-5)
    assert torch.equal(fourth[0], second[0])
    assert (second[2] - second[0]).abs().max() > 1e-3  # the first step has moved the weights
    assert metrics["optimiser_steps"] == 4
    assert metrics["agent/clip_share"] > 0


def test_one_step_computes_one_pass():
    model = tiny()
    update = mixed_batch(model)
    trainer = make(engine(model), STILL)
    passes = []
    model.model.register_forward_hook(lambda *_: passes.append(1))
    trainer.update(update)
    assert len(passes) == 1


def test_what_has_no_advantage_is_not_computed_but_counts():
    model = tiny()
    update = mixed_batch(model)
    silent = [dataclasses.replace(item, advantage=0.0) for item in update.trajectories[:6]]
    held = batch(*silent, *update.trajectories[6:])
    lengths = []
    trainer, seen = watched(model, aggregation="sequence")
    model.model.register_forward_hook(
        lambda _, __, kwargs, ___: lengths.append(kwargs["input_ids"].numel()), with_kwargs=True
    )
    metrics = trainer.update(held)
    assert lengths == [sum(len(one.ids) - 1 for item in held.trajectories[6:] for one in item.samples)]
    assert metrics["agent/nonzero_advantages"] == pytest.approx(3 / 9)
    assert_equal(seen, plain_gradient(model, held, "sequence"), atol=1e-5)


def test_without_any_advantage_nothing_changes():
    model = tiny()
    before = {name: value.clone() for name, value in model.named_parameters()}
    player = engine(model)
    trainer = make(player, {"learning_rate": 0.1})
    update = mixed_batch(model)
    metrics = trainer.update(batch(*(dataclasses.replace(item, advantage=0.0) for item in update.trajectories)))
    assert metrics["optimiser_steps"] == 0
    assert "gradient_norm" not in metrics
    assert "agent/entropy" not in metrics
    assert all(torch.equal(value, before[name]) for name, value in model.named_parameters())
    assert player.policy_version == 0
    assert trainer.update(batch())["agent/trajectories"] == 0


def test_the_engine_samples_with_the_new_weights_and_their_number():
    player = engine(tiny())
    trainer = make(player, {"learning_rate": 0.1})
    prompt = [3, 4, 5, 6]
    (before,) = sampled(player, [prompt], seed=0, tokens=6)
    trainer.update(mixed_batch(player.model))
    (after,) = sampled(player, [prompt], seed=0, tokens=6)
    assert (before.policy_versions, after.policy_versions) == ((0,), (1,))
    assert before.logprobs != after.logprobs
    ids = torch.tensor([after.ids])
    with torch.no_grad():
        expected = player.model(input_ids=ids).logits[0].log_softmax(-1)
    assert after.logprobs[4:] == pytest.approx([expected[n - 1, after.ids[n]].item() for n in range(4, 10)], abs=1e-5)


def test_metrics_by_hand():
    # Two trajectories whose behaviour log-probabilities are told wrong on purpose: by log 4 (capped), by −log 2.
    model = tiny()
    (first, second) = sampled(engine(model), [[2, 3], [4, 5]], seed=1, tokens=2)
    low, high = (
        tuple(value + shift if value else 0.0 for value in held.logprobs)
        for held, shift in ((first, -math.log(4)), (second, math.log(2)))
    )
    kept = tuple(value + math.log(1.25) if value else 0.0 for value in low)
    update = batch(
        trajectory("a", dataclasses.replace(first, logprobs=low, kept_logprobs=kept), 1.0, reward=1.0),
        trajectory("b", dataclasses.replace(second, logprobs=high, kept_logprobs=high), -3.0, reward=0.5),
        rollout=2,
    )
    metrics = make(engine(model), STILL).update(update)
    assert metrics["agent/weight"] == pytest.approx((2 + 0.5) / 2, abs=1e-4)
    assert metrics["agent/weight_capped_share"] == 0.5
    assert metrics["agent/behaviour_kl"] == pytest.approx((math.log(2) - math.log(4)) / 2, abs=1e-5)
    assert metrics["agent/kept_mass"] == pytest.approx((0.8 + 1) / 2)
    assert metrics["agent/reward"] == 0.75
    assert metrics["agent/advantage_std"] == 2.0
    assert metrics["agent/sampled_tokens"] == 2.0
    assert metrics["agent/rollouts_old"] == 2.0
    assert metrics["designer/trajectories"] == 0.0
    assert not any(name.startswith("designer/") for name in metrics if name != "designer/trajectories")


def test_replies_that_were_cut_off_are_counted():
    update = batch(
        trajectory("a", sample([2, 3], [4, 1], [-1.0, -1.0]), 1.0),
        trajectory("b", sample([2, 3], [4, 5], [-1.0, -1.0]), -1.0),
    )
    assert make(engine(tiny()), STILL).update(update)["agent/unended_share"] == 0.5


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (trajectory("bad", sample([2, 3], [99], [-1.0]), 1.0), r"'bad' holds token ids outside 0\.\.15"),
        (trajectory("bad", sample([2, 3], [4], [math.nan]), 1.0), "of 'bad' is not finite"),
        (trajectory("bad", sample([2, 3], [4], [-1.0]), math.inf), "of 'bad' is not finite"),
        (trajectory("bad", sample([2, 3], [4], [-1.0]), 1.0, temperature=0.0), "temperature of 'bad' must be positive"),
        (trajectory("bad", (), 1.0), "no play holds sampled token ids"),
        (trajectory("bad", Sample((2,), (1,), (-1.0,), (-1.0,), (0,)), 1.0), "begin with 0"),
    ],
)
def test_what_cannot_be_learnt_from_is_refused(item, message):
    with pytest.raises(ValueError, match=message):
        make(engine(tiny()), {}).update(batch(item))


def test_trajectories_without_tokens_beside_others_are_told():
    model = tiny()
    metrics = make(engine(model), STILL).update(batch(*mixed_batch(model).trajectories, trajectory("empty", (), 1.0)))
    assert metrics["trajectories_without_tokens"] == 1
    assert metrics["agent/trajectories"] == 9


def test_a_designer_without_tokens_is_no_reason_to_stop(caplog):
    recorded = trajectory("d", (), 1.0, role="designer")
    with caplog.at_level(logging.WARNING, "spade_trainers"):
        metrics = make(engine(tiny()), {}).update(batch(recorded))
    assert (metrics["trajectories_without_tokens"], metrics["optimiser_steps"]) == (1, 0)
    assert "nothing is learnt from them" in caplog.text


def test_an_update_that_is_not_finite_stops_with_its_trajectories_on_disk(tmp_path):
    model = tiny()
    trainer = make(engine(model), {"faults_folder": str(tmp_path / "faults"), "learning_rate": 0.1, "token_budget": 4})
    update = mixed_batch(model)
    with torch.no_grad():
        model.model.embed_tokens.weight[7] = math.nan
    before = {name: value.clone() for name, value in model.named_parameters()}
    with pytest.raises(GrpoError, match=r"the loss is not finite, and the weights were damaged before: .*embed_tokens"):
        trainer.update(update)
    (path,) = (tmp_path / "faults").iterdir()
    told = json.loads(path.read_text())
    (blamed,) = told["trajectories"]
    expected = next(item for item in update.trajectories if item.key == blamed["key"])
    assert any(7 in held.ids for held in expected.samples)
    assert tuple(blamed["samples"][0]["ids"]) == expected.samples[0].ids
    for name, value in model.named_parameters():
        assert torch.equal(value, before[name]) or "embed" in name
        assert value.grad is None


def test_a_gradient_that_is_not_finite_stops_too(tmp_path):
    model = tiny()
    trainer = make(engine(model), {"faults_folder": str(tmp_path)})
    model.model.norm.weight.register_hook(lambda grad: grad * math.inf)
    before = model.lm_head.weight.clone()
    with pytest.raises(GrpoError, match=r"the gradient of model\.norm\.weight is not finite; this step has changed no"):
        trainer.update(mixed_batch(model))
    assert torch.equal(model.lm_head.weight, before)
    assert len(json.loads(next(tmp_path.iterdir()).read_text())["trajectories"]) == 11


def test_an_engine_with_its_own_weights_is_handed_all_of_them(tmp_path):
    class Elsewhere:
        name, chat_format, max_context, policy_version = "elsewhere", None, None, 7

        def update_weights(self, version, tensors):
            self.policy_version, self.weights = version, {name: value.clone() for name, value in tensors}

    model = tiny()
    model.save_pretrained(tmp_path)
    engine(model).tokenizer.save_pretrained(tmp_path)
    elsewhere = Elsewhere()
    with pytest.raises(SpadeError, match="keeps its own weights: the option path must say which"):
        make(elsewhere, {})
    make(elsewhere, {"path": str(tmp_path), "learning_rate": 0.1}).update(mixed_batch(model))
    assert elsewhere.policy_version == 8
    assert elsewhere.weights.keys() == model.state_dict().keys()
    assert not torch.equal(elsewhere.weights["lm_head.weight"], model.lm_head.weight)


def test_engines_that_cannot_be_trained_are_refused():
    class Deaf:
        name = "deaf"

    with pytest.raises(GrpoError, match="deaf does not take new weights"):
        make(Deaf(), {})
    with pytest.raises(GrpoError, match="is trained in place: leave out path"):
        make(engine(tiny()), {"path": "somewhere"})
