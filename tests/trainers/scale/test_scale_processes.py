"""Two processes of torchrun over gloo learn what one learns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from safetensors.torch import load_file
from trainers.grpo.grpo_policies import tiny

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no distributed package"),
]

TESTS = Path(__file__).parents[2]
SCRIPT = Path(__file__).parent / "train_together.py"
#: Two optimiser steps a pass, two passes, KL; small micro-batches, so that each process gets several, one of them idle.
OPTIONS = {"learning_rate": 0.01, "minibatches": 2, "epochs": 2, "kl": 0.1, "token_budget": 16, "max_grad_norm": 0.5}


def run(processes: int, told: dict | None, *command: str) -> subprocess.CompletedProcess[str]:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    start = torchrun if processes > 1 else [sys.executable]
    what = command or (str(SCRIPT), json.dumps(told))
    paths = [TESTS, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(map(str, paths))}
    return subprocess.run([*start, *what], env=environment, capture_output=True, text=True, timeout=300, check=False)


def trained(processes: int, folder: Path, **told: object) -> Path:
    folder.mkdir()
    done = run(
        processes, {"folder": str(folder), "dtype": "float32", "options": OPTIONS, "first": 0, "last": 2, **told}
    )
    assert done.returncode == 0, done.stderr
    return folder


def assert_same(one: Path, two: Path, *, tolerance: float) -> None:
    files = sorted(path.name for path in one.glob("*.safetensors"))
    assert files == sorted(path.name for path in two.glob("*.safetensors"))
    for name in files:
        left, right = load_file(one / name), load_file(two / name)
        assert left.keys() == right.keys()
        for key, value in left.items():
            torch.testing.assert_close(
                right[key], value, atol=tolerance, rtol=tolerance, msg=lambda m, k=key: f"{k}: {m}"
            )
    left, right = torch.load(one / "played.pt"), torch.load(two / "played.pt")
    for key, value in left.items():
        torch.testing.assert_close(right[key], value, atol=tolerance, rtol=tolerance)
    (updates, version), (other_updates, other_version) = (
        json.loads((folder / "metrics.json").read_text()) for folder in (one, two)
    )
    assert version == other_version
    for update, other in zip(updates[-len(other_updates) :], other_updates, strict=True):
        assert update.keys() == other.keys()
        for key in update:
            if "second" not in key:
                assert other[key] == pytest.approx(update[key], rel=max(tolerance, 1e-4), abs=max(tolerance, 1e-4)), key


def tiny_weights() -> dict[str, torch.Tensor]:
    return dict(tiny(num_hidden_layers=3).state_dict())


def test_two_processes_learn_what_one_learns(tmp_path):
    one, two = trained(1, tmp_path / "one"), trained(2, tmp_path / "two")
    assert_same(one, two, tolerance=1e-5)
    played, saved = torch.load(two / "played.pt"), load_file(two / "model.safetensors")
    assert all(torch.equal(played[name], value) for name, value in saved.items())
    assert not torch.equal(saved["lm_head.weight"], tiny_weights()["lm_head.weight"])


def test_they_do_with_tied_weights_and_checkpointing(tmp_path):
    told = {"tied": True, "options": {"learning_rate": 1e-3, "gradient_checkpointing": True, "token_budget": 24}}
    assert_same(trained(1, tmp_path / "one", **told), trained(2, tmp_path / "two", **told), tolerance=1e-5)


def test_they_do_in_half_precision(tmp_path):
    told = {"dtype": "bfloat16", "options": {"learning_rate": 1e-3, "token_budget": 24}, "last": 1}
    one, two = trained(1, tmp_path / "one", **told), trained(2, tmp_path / "two", **told)
    assert (one / "masters.safetensors").is_file()
    norms = [json.loads((folder / "metrics.json").read_text())[0][0]["gradient_norm"] for folder in (one, two)]
    assert norms[1] == pytest.approx(norms[0], rel=1e-3)
    left, right = (load_file(folder / "optimiser.safetensors") for folder in (one, two))
    assert left.keys() == right.keys()
    for key, value in left.items():  # sums over processes are rounded to the weights' precision, 8 bits
        torch.testing.assert_close(right[key], value, rtol=0, atol=2**-7 * float(value.abs().max()))


def test_one_process_goes_on_from_two_and_two_from_one(tmp_path):
    whole = trained(1, tmp_path / "whole", last=4)
    one, two = trained(1, tmp_path / "one"), trained(2, tmp_path / "two")
    assert_same(whole, trained(2, tmp_path / "one-two", resume=str(one), first=2, last=4), tolerance=1e-4)
    assert_same(whole, trained(1, tmp_path / "two-one", resume=str(two), first=2, last=4), tolerance=1e-4)


@pytest.mark.parametrize("blamed", [0, 3])
def test_what_is_not_finite_in_one_process_stops_both(tmp_path, blamed):
    options = {**OPTIONS, "minibatches": 1, "faults_folder": str(tmp_path / "faults")}
    done = run(
        2, {"folder": str(tmp_path), "dtype": "float32", "options": options, "first": 0, "last": 1, "blow_up": blamed}
    )
    assert done.returncode != 0
    assert "rank 0: the loss is not finite; this step has changed no weight" in done.stderr
    assert "rank 1: the loss is not finite" in done.stderr or "SIGTERM" in done.stderr
    (file,) = (tmp_path / "faults").iterdir()
    assert f"a{blamed}" in [item["key"] for item in json.loads(file.read_text())["trajectories"]]


@pytest.mark.parametrize("dies", [0, 1])
def test_the_end_of_one_process_ends_both(tmp_path, dies):
    done = run(
        2, {"folder": str(tmp_path), "dtype": "float32", "options": OPTIONS, "first": 0, "last": 4, "dies": dies}
    )
    assert done.returncode != 0
    assert f"rank      : {dies} (local_rank: {dies})\n  exitcode  : 7" in done.stderr
    assert not (tmp_path / "model.safetensors").exists()


def test_a_run_of_the_cycle_is_trained_by_two_processes(tmp_path):
    from selfplay.small_replies import write_replies
    from selfplay.small_runs import SETTINGS

    sys.path.insert(0, str(TESTS / "models"))
    try:
        from chat_tokenizers import tokenizer_of
        from tiny_models import tiny_llama
    finally:
        sys.path.pop(0)
    model = tmp_path / "model"
    tiny_llama(initializer_range=0.05, max_position_embeddings=2048).save_pretrained(model)
    tokenizer_of("chatml").save_pretrained(model)
    replies = write_replies(tmp_path / "replies", flawed=2)
    told = [*SETTINGS, f"designer.name=recorded:{replies}", f"models.agent=transformers:{model}", "cycle.rollouts=2"]
    told += ["agent.max_turns=1", "agent.turn_tokens=16", "trainer.name=grpo", "trainer.options={learning_rate=0.001}"]
    told += ["hints.source=manifest", "cycle.hint_plays=0"]
    sets = [word for setting in told for word in ("--set", setting)]
    found = {}
    for count in (1, 2):
        out = tmp_path / f"run{count}"
        command = ("-m", "spade_trainers.grpo", "selfplay", "--recipe", "recorded-demo", "--out", str(out), *sets)
        done = run(count, None, *command)
        assert done.returncode == 0, done.stderr
        found[count] = load_file(sorted((out / "checkpoints").iterdir())[-1] / "model.safetensors")
    for name, value in found[1].items():
        torch.testing.assert_close(found[2][name], value, atol=1e-4, rtol=1e-4)
