"""What a machine with one GPU shows in six minutes: ``examples/gpu_check.sh``.

Gradients against float64 on a small case; then, on random weights of Qwen3's shapes, an update in bfloat16 and
generation beside TRL's, memory, and how much of the measured rate of matrix products an update reaches. Without a GPU
it says so and is done; ``--cpu`` runs the same code on tiny shapes, so that it is tested.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from spade_gym.bench.machine import machine_and_date
from spade_trainers.bench.against_trl import compare_generation, compare_updates
from spade_trainers.bench.workload import SHAPES, Device, Precision, Shape, Weights, Workload, model_of

SUMMARY = "gradients, an update and generation on one GPU, beside TRL's"

#: After so many seconds no further shape is begun.
_LAST_START_SECONDS = 200
#: Largest difference of gradients from float64, as a share of the largest component.
_TOLERANCES: dict[Precision, float] = {"float32": 1e-4, "bfloat16": 0.1}


class Plan(NamedTuple):
    """What is measured.

    Attributes:
        device: Where.
        shapes: Of the models, the smallest first.
        completion_tokens: Of each of eight completions.
        sampled_tokens: The same for generation.
        matrix: Width of the matrices whose product's rate is measured.
        repetitions: Medians are over as many.
    """

    device: Device
    shapes: tuple[Shape, ...]
    completion_tokens: int
    sampled_tokens: int
    matrix: int
    repetitions: int


GPU = Plan("cuda", ("qwen3-0.6b", "qwen3-1.7b"), 512, 64, 8192, 3)
CPU = Plan("cpu", ("qwen3-tiny",), 16, 4, 256, 1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print one JSON object; 1 if a gradient is wrong, 0 otherwise, also where there is no GPU."""
    parser = argparse.ArgumentParser(prog="gpu_check", description=SUMMARY)
    parser.add_argument("--cpu", action="store_true", help="tiny shapes on the CPU: that it runs")
    told = parser.parse_args(arguments)
    reason = None if told.cpu else why_not()
    if reason is not None:
        print(f"skipped: {reason}")
        return 0
    result = measure(CPU if told.cpu else GPU)
    print(json.dumps(result, indent=2))
    return 0 if all(row["within"] for row in result["gradients"].values()) else 1


def why_not() -> str | None:
    """Return why nothing can be measured on a GPU here; ``None`` where it can."""
    try:
        import torch
        import transformers  # noqa: F401  (only whether it is there)
    except ImportError as error:
        return f"{error}: pip install 'spade-gym[grpo]'"
    if not torch.cuda.is_available():
        return f"PyTorch {torch.__version__} finds no GPU (CUDA or ROCm); --cpu runs the same on tiny shapes"
    return None


def measure(plan: Plan) -> dict[str, Any]:
    """Measure everything of a plan."""
    begun = time.perf_counter()
    result: dict[str, Any] = {**machine_and_date(), "device": _name(plan.device), "plan": plan._asdict()}
    result["matrix_tflops"] = round(matrix_rate(plan) / 1e12, 4)
    result["gradients"] = {precision: gradient_error(plan.device, precision) for precision in _TOLERANCES}
    for shape in plan.shapes:
        if time.perf_counter() - begun > _LAST_START_SECONDS:
            result[shape] = {"reason": f"not begun: {_LAST_START_SECONDS} seconds were over"}
            continue
        result[shape] = _shape(plan, shape, result["matrix_tflops"] * 1e12)
    result["seconds"] = round(time.perf_counter() - begun, 1)
    return result


def matrix_rate(plan: Plan) -> float:
    """Return floating-point operations a second of a product of square matrices in bfloat16, the best of five."""
    import torch

    from spade_trainers.bench.side import timed

    one, other = (torch.randn(plan.matrix, plan.matrix, device=plan.device, dtype=torch.bfloat16) for _ in range(2))
    seconds = [timed(lambda: one @ other, plan.device)[1].wall for _ in range(6)][1:]
    return float(2 * plan.matrix**3 / min(seconds))


def gradient_error(device: Device, precision: Precision) -> dict[str, Any]:
    """Compare the gradient of an update on a device with that of the same weights in float64 on the CPU."""
    exact, found = _gradient("cpu", "float32", "float64"), _gradient(device, precision, "float32")
    largest = max(float(value.abs().max()) for value in exact.values())
    error = max(float((found[name] - value).abs().max()) for name, value in exact.items()) / largest
    return {"error": error, "tolerance": _TOLERANCES[precision], "within": error <= _TOLERANCES[precision]}


def _gradient(device: Device, precision: Precision, weights: Weights) -> dict[str, Any]:
    """The gradient of one update of a small model, as float64 on the CPU."""
    from spade_trainers.bench.side_ours import Ours

    workload = Workload(
        shape="qwen3-tiny", prompt_tokens=12, completion_tokens=20, group=4, device=device, precision=precision,
        weights=weights,
    )  # fmt: skip
    side = Ours(workload, learning_rate=1e-30, max_grad_norm=1e30)
    return {name: value.double().cpu() for name, value in side.gradient(model_of(workload.shape).state_dict()).items()}


def _shape(plan: Plan, shape: Shape, rate: float) -> dict[str, Any]:
    """Measure an update and generation of one shape, beside TRL where it is installed."""
    workload = Workload(
        shape=shape, completion_tokens=plan.completion_tokens, sampled_tokens=plan.sampled_tokens,
        precision="bfloat16", weights="bfloat16", device=plan.device,
    )  # fmt: skip
    updates = compare_updates(workload, repetitions=plan.repetitions, say=_say, try_precisions=False)
    generation = compare_generation(workload, repetitions=plan.repetitions, say=_say)
    seconds = {name: side["seconds"] for name, side in updates["update"]["sides"].items()}
    shares = {name: round(operations(workload, name) / time / rate, 4) for name, time in seconds.items()}
    return {**updates, **generation, "utilisation": shares}


def operations(workload: Workload, side: str) -> float:
    """Return the floating-point operations of an update's matrix products, forward and backward.

    Args:
        workload: What is computed.
        side: ``ours`` computes the prompt once for the group, the others once for each completion; only ``trl`` puts
            prompts through the head where there is no Triton, which is not counted.
    """
    shape = SHAPES[workload.shape]
    width, inner, depth = shape["hidden_size"], shape["intermediate_size"], shape["num_hidden_layers"]
    head = shape.get("head_dim", width // shape["num_attention_heads"])
    heads, keys = shape["num_attention_heads"] * head, shape["num_key_value_heads"] * head
    weights = width * (heads + 2 * keys) + heads * width + 3 * width * inner
    prompts = 1 if side == "ours" else workload.group
    sampled = workload.group * workload.completion_tokens
    tokens = prompts * workload.prompt_tokens + sampled
    # each token with those before it, in its prompt and its completion: scores and sums
    pairs = prompts * workload.prompt_tokens**2 / 2
    pairs += sampled * (workload.prompt_tokens + workload.completion_tokens / 2)
    products = depth * (weights * tokens + 2 * heads * pairs) + shape["vocab_size"] * width * sampled
    return float(6 * products)


def _name(device: Device) -> str:
    import torch

    return str(torch.cuda.get_device_name()) if device == "cuda" else "cpu"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
