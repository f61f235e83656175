"""The few words that every part of the package uses."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

Setting = Literal["single_turn", "multi_turn", "tool_use"]
SETTINGS: tuple[Setting, ...] = get_args(Setting)

GAME_SKILLS = (
    "Mathematical Reasoning",
    "Logical Deduction",
    "Spatial Reasoning",
    "Pattern Recognition",
    "Optimization",
    "Causal Inference",
)
TOOL_SKILLS = (
    "API Orchestration",
    "Data Retrieval",
    "State Modification",
    "Error Recovery",
    "Tool Selection",
    "Multi-Step Workflows",
)

#: A play is won when it terminated with at least this return (method, section 6).
WIN_THRESHOLD = 0.999

Status = Literal["ok", "aborted", "env_error", "timeout"]


class Transition(NamedTuple):
    """What one ``reset`` or ``step`` of a program gave.

    Attributes:
        observation: Text, at most ``Limits.text_chars`` characters.
        reward: Finite; 0.0 after a reset.
        terminated: The task ended (won or lost).
        truncated: The episode was cut off (turn limit, or a fault).
        info: JSON-like values only.
    """

    observation: str
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]
