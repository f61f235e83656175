"""Which skills are there, which of them is it the turn of, and how hard is a program to be?"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import NamedTuple, get_args

import numpy as np

from spade_gym.designer.request import Difficulty
from spade_gym.types import GAME_SKILLS, TOOL_SKILLS, Setting

DIFFICULTIES: tuple[Difficulty, ...] = get_args(Difficulty)

#: Method, section 1.
SKILLS_PER_REGENERATION = 3


class Skill(NamedTuple):
    """What a skill means, for a designer.

    Attributes:
        description: One or two sentences.
        concepts: Ideas to build on where there is no document (the ablation without a corpus).
    """

    description: str
    concepts: tuple[str, ...]


SKILLS = MappingProxyType(
    {
        "Mathematical Reasoning": Skill(
            "The player sets up and carries out an exact calculation or derivation: number theory, algebra, counting, "
            "probability. Knowing a formula is not enough; several steps build on each other.",
            ("remainders and divisibility", "counting with constraints", "recurrences", "expected values",
             "unknown coefficients found by evaluation", "exact fractions"),
        ),
        "Logical Deduction": Skill(
            "The player combines clues or answers until only one possibility is left, and keeps track of what has been "
            "ruled out.",
            ("who tells the truth", "seating and matching under clues", "weighings", "elimination by questions",
             "contradictory reports", "codes with feedback"),
        ),
        "Spatial Reasoning": Skill(
            "The player keeps a picture of positions, directions, shapes or distances that is never shown as a whole, "
            "and acts on it.",
            ("a map explored through doors", "reflections of a ray", "rotations of a die", "bearings to landmarks",
             "packing of tiles", "paths around obstacles"),
        ),
        "Pattern Recognition": Skill(
            "The player finds the rule behind examples, experiments or a sequence and applies it to new cases.",
            ("an unknown rewriting rule", "a sequence with two interleaved laws", "an automaton seen from outside",
             "grids that change by a rule", "hidden periods", "a classification by two features"),
        ),
        "Optimization": Skill(
            "The player finds the best choice under limits: what looks best at first is not, and the gain of each "
            "choice depends on the others.",
            ("schedules with deadlines", "budgets and capacities", "routes with costs", "a peak found with few samples",
             "stocks over several days", "trade-offs between two goods"),
        ),
        "Causal Inference": Skill(
            "The player tells causes from coincidence by planning interventions, controls and comparisons, and states "
            "what acts on what.",
            ("a wiring diagram found by switching", "a confounded treatment", "a faulty part found by swapping",
             "two causes that mask each other", "delayed effects", "dose and response"),
        ),
        "API Orchestration": Skill(
            "The player calls several services in the right order and passes values from one result to another.",
            ("a lookup before a booking", "a token that must be requested first", "results joined from two services",
             "a quote that is confirmed afterwards"),
        ),
        "Data Retrieval": Skill(
            "The player finds records by searching, filtering and paging, and reports or uses the right one among many "
            "that resemble it.",
            ("pages with a cursor", "namesakes", "filters by date and status", "totals over several records"),
        ),
        "State Modification": Skill(
            "The player changes exactly what was asked, leaves the rest alone, and respects the rules of the backend.",
            ("changes of quantity, address or status", "limits that forbid a change", "a change that needs another",
             "a change that is undone"),
        ),
        "Error Recovery": Skill(
            "Calls fail for reasons that errors tell, and the player repairs the cause and does not repeat the call.",
            ("version conflicts", "a locked or closed record", "a limit that asks for smaller parts",
             "a precondition that is missing"),
        ),
        "Tool Selection": Skill(
            "Several tools look alike, and the player chooses the one whose description fits the request.",
            ("cancel against refund", "search by name or by number", "a draft against a sent message",
             "tools that only administrators may use"),
        ),
        "Multi-Step Workflows": Skill(
            "A request takes a chain of dependent steps, some of which are found only on the way.",
            ("check, repair, then act", "approval before payment", "moving a record with all its parts",
             "closing what is open before a change of plan"),
        ),
    }
)  # fmt: skip

DIFFICULTY_DESCRIPTIONS = MappingProxyType(
    {
        "easy": "A careful beginner wins most episodes: few steps, small numbers, one idea.",
        "medium": "A careful player wins about half of the episodes: several steps that build on each other, one trap.",
        "hard": "An expert wins about half of the episodes: a long chain of steps or two ideas, and false leads.",
    }
)


def skills_of(setting: Setting) -> tuple[str, ...]:
    """Return the six skills of a setting."""
    return TOOL_SKILLS if setting == "tool_use" else GAME_SKILLS


def check_skills(skills: Sequence[str], setting: Setting) -> None:
    """Refuse skills that a designer cannot be asked for.

    Raises:
        ValueError: There is none, one occurs twice, or one is no skill of the setting.
    """
    allowed = skills_of(setting)
    if not skills or len(set(skills)) != len(skills):
        raise ValueError(f"skills must be one or more different ones, got {list(skills)!r}")
    for skill in skills:
        if skill not in allowed:
            raise ValueError(f"{skill!r} is no skill of the setting {setting}; its skills are {', '.join(allowed)}")


def skills_of_epoch(epoch: int, skills: Sequence[str], *, count: int = SKILLS_PER_REGENERATION) -> tuple[str, ...]:
    """Return the skills that a regeneration asks for: ``count`` consecutive ones from ``count · epoch``, wrapping.

    Args:
        epoch: Number of the regeneration, rollout // K, from 0.
        skills: In rotation order.
        count: How many, 1 to the number of skills.

    Raises:
        ValueError: ``epoch`` or ``count`` is out of range.

    Source: method, section 1.
    """
    if epoch < 0:
        raise ValueError(f"epoch must be 0 or more, got {epoch}")
    if not 1 <= count <= len(skills):
        raise ValueError(f"count must be from 1 to the number of skills, {len(skills)}, got {count}")
    first = count * epoch % len(skills)
    return tuple(skills[(first + step) % len(skills)] for step in range(count))


def skill_of_environment(index: int, chosen: Sequence[str]) -> str:
    """Return the skill of environment ``index`` of a pool: the chosen ones in turn (method, section 1)."""
    return chosen[index % len(chosen)]


def draw_difficulty(rng: np.random.Generator, among: Sequence[Difficulty] = DIFFICULTIES) -> Difficulty:
    """Draw a difficulty, each with the same probability."""
    return among[int(rng.integers(len(among)))]
