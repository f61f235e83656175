"""How much memory a process of its own has used, as Linux or the GPU's allocator counts it."""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path

_STATUS = Path("/proc/self/status")


def resident_mib(device: str, *, peak: bool = False) -> float | None:
    """Return this process's memory in MiB, now or at its peak; ``None`` where nobody tells."""
    if device == "cuda":
        import torch

        count = torch.cuda.max_memory_allocated() if peak else torch.cuda.memory_allocated()
        return float(count) / 2**20
    name = "VmHWM:" if peak else "VmRSS:"
    try:
        lines = _STATUS.read_text("utf-8").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(name)), None)


def give_back() -> None:
    """Hand free memory back to the system, so that what is resident is what is in use."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
