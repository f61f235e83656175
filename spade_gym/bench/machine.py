"""On what, and when, was something measured?"""

from __future__ import annotations

import datetime
import os
import platform
from pathlib import Path
from typing import Any

import numpy as np


def machine_and_date() -> dict[str, Any]:
    """Return the date (UTC) and the class of this machine, as JSON values."""
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": {
            "system": platform.system(), "architecture": platform.machine(), "processor": _processor(),
            "cores": os.cpu_count(), "python": platform.python_version(), "numpy": np.__version__,
        },
    }  # fmt: skip


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
