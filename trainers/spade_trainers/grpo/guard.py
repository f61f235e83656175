"""What cannot be learnt from is refused; an update that is not finite stops, with its trajectories on disk."""

from __future__ import annotations

import dataclasses
import json
import logging
import math
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from spade_gym.selfplay.trainer import Trajectory
from spade_trainers.grpo.aggregation import num_sampled
from spade_trainers.grpo.policy import GrpoError

logger = logging.getLogger(__name__)


def check_trajectories(trajectories: Iterable[Trajectory], vocabulary: int) -> None:
    """Refuse numbers and ids that would only show as nonsense later.

    Args:
        trajectories: Of an update.
        vocabulary: How many token ids the model has.

    Raises:
        ValueError: With the trajectory's key.
    """
    for item in trajectories:
        numbers = [item.advantage, item.reward]
        numbers += [number for sample in item.samples for number in (*sample.logprobs, *sample.kept_logprobs)]
        if not all(map(math.isfinite, numbers)):
            raise ValueError(f"a reward, advantage or log-probability of {item.key!r} is not finite")
        if not 0 < item.temperature < math.inf:
            raise ValueError(f"the temperature of {item.key!r} must be positive, got {item.temperature!r}")
        for sample in item.samples:
            if sample.ids and not 0 <= min(sample.ids) <= max(sample.ids) < vocabulary:
                raise ValueError(f"{item.key!r} holds token ids outside 0..{vocabulary - 1}: another model's, it seems")


def with_tokens(trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """Return the trajectories that hold sampled tokens; a warning says when none of the designer's does.

    Raises:
        ValueError: There are plays, and none holds any.
    """
    usable = [item for item in trajectories if num_sampled(item)]
    missing = {item.role for item in trajectories} - {item.role for item in usable}
    if "agent" in missing:
        raise ValueError(
            "no play holds sampled token ids: the engine did not give them with their log-probabilities; take "
            "one that does (docs/models.md)"
        )
    if "designer" in missing:
        logger.warning(
            "the designer's replies hold no sampled token ids, so nothing is learnt from them: recorded replies and "
            "servers have none; designer.train = false says that this is meant"
        )
    return usable


def not_finite(what: str, trajectories: Iterable[Trajectory], folder: str) -> GrpoError:
    """Write trajectories and return the error that names their file.

    Args:
        what: Went wrong, for the message.
        trajectories: That are to blame.
        folder: Where to write; "" for a new temporary folder.
    """
    blamed = list(trajectories)
    place = Path(folder) if folder else Path(tempfile.mkdtemp(prefix="spade-grpo-"))
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"not-finite-{sum(1 for _ in place.glob('not-finite-*.json')):03d}.json"
    rows = [dataclasses.asdict(item) for item in blamed]
    path.write_text(json.dumps({"problem": what, "trajectories": rows}) + "\n", encoding="utf-8")
    names = ", ".join(item.key for item in blamed[:3]) + (" …" if len(blamed) > 3 else "")
    return GrpoError(
        f"{what}; this step has changed no weight. The {len(blamed)} trajectories that it was computed from ({names}) "
        f"are in {path}. Go on from the last checkpoint with a lower learning_rate or max_grad_norm, or look there for "
        "what is special about them"
    )
