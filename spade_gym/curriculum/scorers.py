"""All scorers by name, for presets and settings files."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from spade_gym import plugins
from spade_gym.curriculum import average_scorers, difficulty_scorers, plateau_scorers, progress_scorers, regret_scorers
from spade_gym.curriculum.memory import Scorer
from spade_gym.curriculum.outcomes import Outcomes
from spade_gym.curriculum.score import Score, Unknown

Function = Callable[..., Score | Unknown]


def trainer_value(outcomes: Outcomes, *, num_plays: int = 1) -> Score | Unknown:
    """What the trainer computed of the last plays (PVL, MaxMC, L1 GAE, TD error, entropy: ``value_scorers.py``).

    Formula: their mean. Range: the trainer's. Standard error: of the mean; none for one play.

    Args:
        outcomes: Plays of one task.
        num_plays: Newest plays with a value that count, at least 1.
    """
    values = outcomes.values[~np.isnan(outcomes.values)][-num_plays:]
    if not len(values):
        return Unknown(
            "the trainer gave no value with its outcomes; this scorer needs Outcome(value=…), or choose a scorer of "
            "returns",
            len(outcomes),
        )
    error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
    return Score(float(values.mean()), error, len(values))


#: The mark of a scorer for which every outcome must bring a value; third parties set it on theirs.
trainer_value.needs_values = True  # type: ignore[attr-defined]


def needs_values(scorer: Scorer) -> bool:
    """Whether a scorer is marked as one that every outcome must bring a value for."""
    return bool(getattr(getattr(scorer, "func", scorer), "needs_values", False))


def no_score(outcomes: Outcomes) -> Score | Unknown:
    """For methods that rank nothing."""
    return Unknown("this method does not score tasks", len(outcomes))


BUILT_IN: Mapping[str, Function] = {
    "none": no_score,
    "trainer-value": trainer_value,
    "hint-regret": regret_scorers.hint_regret,
    "plateau": plateau_scorers.plateau_score,
    "solve-rate": plateau_scorers.solve_rate_score,
    "spade": plateau_scorers.spade_score,
    "learnability": difficulty_scorers.learnability,
    "unbiased-learnability": difficulty_scorers.unbiased_learnability,
    "instance-learnability": difficulty_scorers.instance_learnability,
    "return-variance": difficulty_scorers.return_variance,
    "variance-target": difficulty_scorers.variance_target,
    "azr": difficulty_scorers.azr_score,
    "r-zero": difficulty_scorers.rzero_score,
    "alp": progress_scorers.absolute_learning_progress,
    "tscl-slope": progress_scorers.tscl_slope,
    "micro-progress": progress_scorers.micro_progress,
    "learning-potential": average_scorers.learning_potential,
    "frontier-bonus": average_scorers.frontier_bonus,
    "omni-progress": average_scorers.omni_progress,
}


def find(name: str) -> Function:
    """Return a scorer by name: a built-in one, or a third party's (entry points ``spade_gym.scorers``).

    Raises:
        PluginError: There is no such scorer, or it cannot be imported.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    found: Function = plugins.load("scorers", name)
    return found


def bound(function: Function, options: Mapping[str, Any], *, name: str) -> Scorer:
    """Fix a scorer's options.

    Raises:
        TypeError: The scorer has no such option.
    """
    known = [p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]
    for key in options:
        if key not in known:
            raise TypeError(f"the scorer {name!r} has no option {key!r}; its options are {', '.join(known) or 'none'}")
    return functools.partial(function, **options)
