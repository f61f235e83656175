#!/usr/bin/env bash
# What one GPU shows in at most six minutes: gradients against float64, a bfloat16 update and generation on random
# weights of Qwen3-0.6B and 1.7B beside TRL's, memory, and the share of the measured rate of matrix products.
# Needs `pip install 'spade-gym[grpo]' trl`; without a GPU it says so and is done. `--cpu` runs tiny shapes instead.
# A result is one JSON object on standard output; exit status 1 means a wrong gradient, 124 that six minutes were over.
set -euo pipefail
exec timeout 360 "${PYTHON:-python3}" -m spade_trainers.bench.gpu_check "$@"
