"""An update that is not finite stops the run, with what it was computed from on disk, before a weight changes."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Iterable
from pathlib import Path

from spade_gym.selfplay.trainer import Trajectory
from spade_trainers.grpo.policy import GrpoError


def stop(what: str, trajectories: Iterable[Trajectory], folder: str) -> GrpoError:
    """Write trajectories and return the error that names their file.

    Args:
        what: Went wrong, for the message.
        trajectories: That are to blame.
        folder: Where to write; "" for a new temporary folder.
    """
    blamed = list(trajectories)
    place = Path(folder) if folder else Path(tempfile.mkdtemp(prefix="spade-grpo-"))
    place.mkdir(parents=True, exist_ok=True)
    number = sum(1 for _ in place.glob("not-finite-*.json"))
    path = place / f"not-finite-{number:03d}.json"
    rows = [dataclasses.asdict(item) for item in blamed]
    path.write_text(json.dumps({"problem": what, "trajectories": rows}) + "\n", encoding="utf-8")
    names = ", ".join(item.key for item in blamed[:3]) + (" …" if len(blamed) > 3 else "")
    return GrpoError(
        f"{what}; the weights were not changed by this step. The {len(blamed)} trajectories that it was computed from "
        f"({names}) are in {path}. Go on from the last checkpoint with a lower learning_rate or max_grad_norm, or look "
        "there for what is special about them"
    )
