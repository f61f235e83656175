"""The loss and its gradient are those of TRL's own GRPOTrainer on the same numbers, where TRL is installed."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("trl")
pytest.importorskip("datasets")

import torch
from grpo_policies import batch, engine, sample, tiny, tokenizer, trajectory

from spade_trainers.grpo.aggregation import token_coefficients
from spade_trainers.grpo.loss import Tokens, token_loss
from spade_trainers.grpo.settings import GrpoSettings
from spade_trainers.grpo.trainer import make

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # TRL's and its libraries' own

PROMPT, TEMPERATURE, LONGEST = 5, 0.7, 9
LENGTHS = (9, 3, 6, 1)
ADVANTAGES = (1.5, -0.75, 0.25, -1.0)
#: Loss types of TRL, and the aggregation that is named after the same paper.
TYPES = {"dapo": "token", "grpo": "sequence", "dr_grpo": "fixed"}


def ids_of() -> tuple[list[list[int]], list[list[int]]]:
    generator = torch.Generator().manual_seed(5)
    prompts = torch.randint(2, 16, (len(LENGTHS), PROMPT), generator=generator).tolist()
    completions = torch.randint(2, 16, (len(LENGTHS), LONGEST), generator=generator).tolist()
    return prompts, [ids[:length] for ids, length in zip(completions, LENGTHS, strict=True)]


def trl_trainer(model: Any, folder: Any, **settings: Any) -> Any:
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    told = GRPOConfig(
        output_dir=str(folder), per_device_train_batch_size=4, num_generations=4, max_completion_length=LONGEST,
        temperature=TEMPERATURE, bf16=False, gradient_checkpointing=False, use_cpu=True, report_to=[],
        use_bias_correction_kl=False, **settings,
    )  # fmt: skip
    made = GRPOTrainer(
        model=model, reward_funcs=lambda completions, **_: [0.0] * len(completions), args=told,
        train_dataset=Dataset.from_dict({"prompt": ["w5"] * 4}), processing_class=tokenizer(),
    )  # fmt: skip
    model.eval()
    return made


def scored(model: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities of the completions' tokens and entropies at their places, sample by sample."""
    logprobs, entropies = [], []
    for prompt, ids in zip(*ids_of(), strict=True):
        everything = (model(input_ids=torch.tensor([prompt + ids])).logits[0] / TEMPERATURE).log_softmax(-1)
        rows = everything[PROMPT - 1 : -1]
        logprobs.append(rows[range(len(ids)), ids])
        entropies.append(-(rows.exp() * rows).sum(-1))
    return torch.cat(logprobs), torch.cat(entropies)


def padded(values: torch.Tensor) -> torch.Tensor:
    """Rows of the completions' lengths, as TRL has them."""
    return torch.nn.utils.rnn.pad_sequence(list(values.split(list(LENGTHS))), batch_first=True)


def trl_inputs(**more: torch.Tensor) -> dict[str, torch.Tensor]:
    prompts, completions = ids_of()
    mask = padded(torch.ones(sum(LENGTHS), dtype=torch.long))
    return {
        "prompt_ids": torch.tensor(prompts), "prompt_mask": torch.ones(len(LENGTHS), PROMPT, dtype=torch.long),
        "completion_ids": padded(torch.tensor([token for ids in completions for token in ids])),
        "completion_mask": mask, "advantages": torch.tensor(ADVANTAGES), "num_items_in_batch": mask.sum(), **more,
    }  # fmt: skip


def gradient_of(model: Any, total: torch.Tensor) -> dict[str, torch.Tensor]:
    names, values = zip(*model.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(total, values), strict=True))


def assert_equal(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert found.keys() == expected.keys()
    largest = max(value.abs().max().item() for value in expected.values())
    assert largest > 1e-2
    for name, value in expected.items():
        assert torch.allclose(found[name], value, atol=2e-5 * largest, rtol=0), name


def trajectories() -> list[Any]:
    found = []
    for number, (prompt, ids) in enumerate(zip(*ids_of(), strict=True)):
        held = sample(prompt, ids, [-1.0] * len(ids), version=3)
        found.append(trajectory(str(number), held, ADVANTAGES[number], temperature=TEMPERATURE))
    return found


@pytest.mark.parametrize("loss_type", TYPES)
def test_the_loss_off_the_policy_with_clip_kl_and_entropy(tmp_path, loss_type):
    model, old, initial = tiny(seed=1), tiny(seed=1), tiny(seed=2)
    with torch.no_grad():
        for value in old.parameters():
            value.mul_(1.05)  # so that ratios are on both sides of the clip
        before, reference = scored(old)[0], scored(initial)[0]
    initial.save_pretrained(tmp_path / "initial")
    model.config._name_or_path = str(tmp_path / "initial")  # TRL loads its reference from there
    entropy = 0.05 if loss_type == "dapo" else 0.0  # TRL's bonus is a mean over tokens whatever the loss
    told = {"beta": 0.2, "epsilon": 0.1, "epsilon_high": 0.15, "entropy_coef": entropy}
    theirs = trl_trainer(model, tmp_path, loss_type=loss_type, **told)
    inputs = trl_inputs(old_per_token_logps=padded(before), ref_per_token_logps=padded(reference))
    expected = theirs._compute_loss(model, inputs)

    settings = GrpoSettings(clip_low=0.1, clip_high=0.15, kl=0.2, entropy=entropy)
    coefficients = token_coefficients(trajectories(), TYPES[loss_type], fixed_length=LONGEST)
    each = torch.repeat_interleave(torch.tensor([coefficients, ADVANTAGES]), torch.tensor(LENGTHS), dim=1)
    found = token_loss(*scored(model), Tokens(each[0], each[1], before, before, reference), settings)
    total = (each[0] * found.loss).sum()
    assert found.clipped.any()
    assert not found.clipped.all()
    assert total.item() == pytest.approx(expected.item(), rel=1e-5)
    assert_equal(gradient_of(model, total), gradient_of(model, expected))


@pytest.mark.parametrize("loss_type", TYPES)
@pytest.mark.parametrize("layout", ["packed", "rows"])
def test_the_gradient_of_a_whole_update(tmp_path, loss_type, layout):
    model = tiny(seed=1)
    expected = gradient_of(model, trl_trainer(model, tmp_path, loss_type=loss_type)._compute_loss(model, trl_inputs()))
    options = {"learning_rate": 1e-30, "max_grad_norm": 1e30, "weight_decay": 0.0, "weight_cap": 0.0}
    told = {"aggregation": TYPES[loss_type], "fixed_length": LONGEST, "layout": layout, "token_budget": 20}
    trainer = make(engine(model), {**options, **told})
    seen: dict[str, torch.Tensor] = {}
    step = trainer._optimiser.step

    def telling() -> None:
        seen.update((name, value.grad.clone()) for name, value in trainer._optimiser.trained.items())
        step()

    trainer._optimiser.step = telling  # type: ignore[method-assign]
    trainer.update(batch(*trajectories()))
    assert_equal(seen, expected)
