"""How the agent plays: its prompt, its budgets, how it samples, and what a play is worth."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from spade_gym.curriculum.episode_return import RewardRule, episode_return
from spade_gym.models.base import Sampling
from spade_gym.programs.program import Program
from spade_gym.types import WIN_THRESHOLD

#: ``manifest``: as the program's manifest says; ``sum`` and ``last``: whatever it says.
ReturnRule = Literal["manifest", "sum", "last"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayerSettings:
    r"""Settings of a player (method, sections 6 and 7: the defaults).

    Attributes:
        sampling: How replies are drawn; its ``max_tokens`` is the budget of one turn.
        max_turns: Most actions of one play; the program's own limit may be lower.
        total_tokens: Most sampled tokens of one play.
        context_tokens: Most tokens of a prompt and its reply together; the model's own ``max_context`` holds too.
        thinking: Whether the model may think first; ``None`` leaves it to its template.
        example: Use the short prompts that show one example, for small models (not for real runs: it costs tokens).
        prompts: A folder with ``single_turn.md``, ``multi_turn.md`` and ``tool_use.md`` to use in place of the bundled
            ones (see ``gameplay_prompt.py``).
        wrap_every_turn: Put the gameplay prompt around every observation (the paper's reading) rather than around the
            first (the released code's).
        box_raw_replies: Send a game a reply without a box as ``\boxed{reply}``, for models that never box; otherwise
            it is sent as it stands.
        reward: How a return is made of rewards: ``manifest``, or ``sum`` or ``last`` for every program.
        win_threshold: A terminated play with at least this return is won; above -1, at most 1.
    """

    sampling: Sampling = field(default_factory=Sampling)
    max_turns: int = 25
    total_tokens: int = 32_768
    context_tokens: int | None = None
    thinking: bool | None = None
    example: bool = False
    prompts: Path | None = None
    wrap_every_turn: bool = False
    box_raw_replies: bool = False
    reward: ReturnRule = "manifest"
    win_threshold: float = WIN_THRESHOLD

    def __post_init__(self) -> None:
        """Refuse settings with which nothing could be played.

        Raises:
            ValueError: With the name, the value and what is allowed.
        """
        for name in ("max_turns", "total_tokens", "context_tokens"):
            value = getattr(self, name)
            if name == "context_tokens" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be a whole number from 1 on, got {value!r}")
        if self.reward not in get_args(ReturnRule):
            raise ValueError(f"reward must be one of {', '.join(get_args(ReturnRule))}, got {self.reward!r}")
        if not -1 < self.win_threshold <= 1:
            raise ValueError(f"win_threshold must be above -1 and at most 1, got {self.win_threshold!r}")
        if self.example and self.prompts is not None:
            raise ValueError("example chooses among the bundled prompts: give either example or prompts, not both")

    def return_of(self, program: Program, rewards: list[float], *, terminated: bool) -> float:
        """Return what a play is worth, in [-1, 1]."""
        rule: RewardRule = program.manifest.reward if self.reward == "manifest" else self.reward
        return episode_return(rewards, terminated=terminated, rule=rule)
