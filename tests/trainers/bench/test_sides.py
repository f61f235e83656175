from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from spade_trainers.bench import against_trl, duel, trainer
from spade_trainers.bench.duel import Process, SideError, in_turn, processes
from spade_trainers.bench.gpu_check import operations
from spade_trainers.bench.layouts import compare_layouts
from spade_trainers.bench.overhead import Watch, Watched
from spade_trainers.bench.workload import Workload, group_of, model_of

SMALL = Workload(shape="qwen3-tiny", prompt_tokens=20, completion_tokens=6, group=4, sampled_tokens=3)
EXAMPLES = Path(__file__).parents[3] / "examples"


def quiet(line: str) -> None:
    pass


def test_every_process_has_the_same_model_and_group():
    assert group_of(SMALL) == group_of(SMALL)
    assert group_of(SMALL).rewards == [0.0, 1.0, 0.0, 1.0]
    assert sum(group_of(SMALL).advantages) == pytest.approx(0)
    assert group_of(SMALL).advantages[1] == pytest.approx(0.5 / (0.57735 + 1e-4), rel=1e-4)
    one, other = (model_of("qwen3-tiny").state_dict() for _ in range(2))
    assert all(torch.equal(value, other[name]) for name, value in one.items())


def test_our_side_answers_and_ends():
    with processes({"ours": ("ours", SMALL)}) as sides:
        times = in_turn(sides, "update", 2, quiet)["ours"]
        made = in_turn(sides, "generate", 1, quiet, fewer={"ours": 1})["ours"]
        memory = sides["ours"].ask("memory")
        assert "no command 'dance'" in sides["ours"].ask("dance")["error"]
    assert len(times.walls) == 2
    assert len(times.gradient_norms) == 3
    assert times.gradient_norms[0] > 0
    assert made.tokens == 4 * 3
    assert memory["peak_mib"] is None or memory["peak_mib"] > memory["resident_mib"] > 50


def test_a_side_that_fails_says_why():
    with pytest.raises(SideError, match=r"the side 'ours' of the comparison ended: .*no-such-shape"):
        Process("ours", Workload(shape="no-such-shape"))  # type: ignore[arg-type]


def test_without_trl_the_ratios_are_unknown_with_a_reason():
    if importlib.util.find_spec("trl"):
        pytest.skip("trl is installed")
    found = against_trl.compare_generation(SMALL, repetitions=1, say=quiet)
    assert found["generation_over_trl"] is None
    assert "trl and datasets not installed" in found["generation_reason"]
    assert "pip install trl" in found["generation_reason"]
    assert found["generation"]["sides"]["ours"]["tokens_per_second"] > 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_both_sides_compute_the_same_gradient():
    """TRL's own trainer, in its own process: the norms of the first two gradients agree."""
    pytest.importorskip("trl")
    pytest.importorskip("datasets")
    kinds = {"ours": ("ours", SMALL), "trl": ("trl", SMALL)}
    with processes(kinds) as sides:
        times = in_turn(sides, "update", 1, quiet)
        made = in_turn(sides, "generate", 1, quiet)
    assert times["ours"].gradient_norms == pytest.approx(times["trl"].gradient_norms, rel=1e-4)
    assert {name: time.tokens for name, time in made.items()} == {"ours": 12, "trl": 12}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_faster_precision_is_found_by_processor_time():
    pytest.importorskip("trl")
    pytest.importorskip("datasets")
    best, seconds = duel.faster_precision(SMALL, quiet)
    assert best == min(seconds, key=seconds.__getitem__)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_every_layout_gives_the_same_gradient(precision):
    found = compare_layouts("tiny", precision=precision, threads=1, repetitions=1, num_plays=6, say=quiet)
    norms = list(found["packing"]["gradient_norms"].values())
    assert norms == pytest.approx([norms[0]] * 4, rel=1e-5 if precision == "float32" else 1e-2)
    assert found["packing_speedup"] > 0


def test_calls_at_the_same_time_count_once():
    class Own:
        name = "own"

        def work(self) -> str:
            return inner()

    watch = Watch()
    inner = watch.watched(lambda: "done")
    watched = Watched(Own(), watch, ["work"])
    assert (watched.work(), watched.name) == ("done", "own")
    assert 0 < watch.seconds < 1


def test_operations_by_hand():
    # width 64, 4 heads of 16, 2 of keys, inner 128, 2 layers, 512 words; 1 prompt of 2, 1 completion of 4
    one = Workload(shape="qwen3-tiny", prompt_tokens=2, completion_tokens=4, group=1)
    weights = 64 * (64 + 2 * 32) + 64 * 64 + 3 * 64 * 128
    pairs = 2 * 2 / 2 + 4 * (2 + 2)
    assert operations(one, "ours") == 6 * (2 * (weights * 6 + 2 * 64 * pairs) + 512 * 64 * 4)
    assert operations(one, "ours") == operations(one, "trl")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_quick_benchmark_prints_its_keys(capsys):
    if importlib.util.find_spec("trl"):
        pytest.skip("trl is installed, and takes minutes")
    parser = argparse.ArgumentParser()
    trainer.add_arguments(parser)
    assert trainer.run(parser.parse_args(["--quick", "--json", "--only", "update", "packing", "overhead"])) == 0
    found = json.loads(capsys.readouterr().out)
    assert {name for name, _, _ in trainer.GOALS} - {"generation_over_trl"} <= set(found)
    assert found["update_time_over_trl"] is None
    assert found["packing_speedup"] > 0
    assert found["overhead_reason"] == "--quick plays no rollout"


def gpu_check(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(
        ["bash", str(EXAMPLES / "gpu_check.sh"), *arguments],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )


def test_without_a_gpu_the_check_says_so_and_is_no_failure():
    done = gpu_check()
    assert (done.returncode, done.stdout.count("\n")) == (0, 1)
    assert done.stdout.startswith("skipped: PyTorch ")
    assert "finds no GPU" in done.stdout


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_its_code_runs_on_tiny_shapes():
    done = gpu_check("--cpu")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert all(row["within"] for row in found["gradients"].values())
    assert 0 < found["qwen3-tiny"]["utilisation"]["ours"] < 1
    assert found["matrix_tflops"] > 0
    assert found["qwen3-tiny"]["generation"]["sides"]["ours"]["tokens_per_second"] > 0
