"""On what, and when, was something measured?"""

from __future__ import annotations

import datetime
import os
import platform
from pathlib import Path
from typing import Any

import numpy as np

_GPU_DEVICES = ("/dev/nvidia0", "/dev/kfd")


def machine_and_date() -> dict[str, Any]:
    """Return the date (UTC) and the class of this machine in words, with what it was seen from, as JSON values."""
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": {
            "class": _class(),
            "system": platform.system(), "architecture": platform.machine(), "processor": _processor(),
            "cores": os.cpu_count(), "python": platform.python_version(), "numpy": np.__version__,
        },
    }  # fmt: skip


def _class() -> str:
    kind = "virtual machine" if "hypervisor" in _cpu_info("flags").split() else "machine"
    gpu = any(Path(device).exists() for device in _GPU_DEVICES)
    return f"{os.cpu_count()}-core {platform.machine().replace('_', '-')} {kind}, {'a' if gpu else 'no'} GPU"


def _processor() -> str:
    return _cpu_info("model name") or platform.processor()


def _cpu_info(name: str) -> str:
    """What Linux says of the first processor; "" elsewhere."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return ""
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(name)), "")
