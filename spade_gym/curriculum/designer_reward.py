"""What a designer's trajectory is worth in the update: centred within its skill, scaled to the agent's share."""

from __future__ import annotations

from collections.abc import Sequence

from spade_gym.curriculum.finite import at_least, finite
from spade_gym.curriculum.score import Score, Unknown

MAX_SCALE = 50.0


def designer_scale(num_designer: int, num_agent: int, num_windows: int, *, max_scale: float = MAX_SCALE) -> float:
    """Return min(max_scale, num_agent / num_designer · num_windows), and 1 without designer trajectories.

    Args:
        num_designer: Designer trajectories in the update, at least 0.
        num_agent: Agent trajectories in the update, at least 0.
        num_windows: K, the windows (rollouts) between two regenerations, at least 1.
        max_scale: Upper bound, positive.

    Raises:
        ValueError: A count is negative, or ``num_windows`` or ``max_scale`` is out of range.

    Source: method, section 5.
    """
    at_least("num_designer", num_designer, 0)
    at_least("num_agent", num_agent, 0)
    at_least("num_windows", num_windows, 1)
    at_least("max_scale", max_scale, 0.0, strictly=True)
    return min(max_scale, num_agent / num_designer * num_windows) if num_designer else 1.0


def designer_advantages(
    raw: Sequence[Score | Unknown], skills: Sequence[str], *, scale: float
) -> tuple[float | None, ...]:
    """Return (raw − mean of raw within the skill) · scale of each program.

    Range: the advantages of a skill sum to 0; with raw in [0, 1] each is within ± scale. A program whose raw
    reward is unknown takes no part in its skill's mean and has no advantage (``None``); one alone in its skill
    has 0.

    Args:
        raw: Raw reward of each program.
        skills: Skill of each program.
        scale: From :func:`designer_scale`.

    Raises:
        ValueError: The lengths differ, or a value is not finite.

    Source: method, section 5.
    """
    if len(raw) != len(skills):
        raise ValueError(f"each program needs its skill, got {len(raw)} rewards and {len(skills)} skills")
    at_least("scale", scale, 0.0)
    known: dict[str, list[float]] = {}
    for score, skill in zip(raw, skills, strict=True):
        if isinstance(score, Score):
            known.setdefault(skill, []).append(float(finite("raw", score.value)))
    means = {skill: sum(values) / len(values) for skill, values in known.items()}
    return tuple(
        (score.value - means[skill]) * scale if isinstance(score, Score) else None
        for score, skill in zip(raw, skills, strict=True)
    )
