"""Is a task as hard as it should be, and does its hint help? The designer's reward of SPADE and its parts."""

from __future__ import annotations

from spade_gym.curriculum.by_window import Measure, plain_values
from spade_gym.curriculum.finite import at_least, finite, within
from spade_gym.curriculum.outcomes import Outcomes
from spade_gym.curriculum.regret_scorers import Pairing, RegretPool, hint_regret
from spade_gym.curriculum.score import Score, Unknown

LOW, HIGH, RAMP = 0.4, 0.6, 0.25
PLATEAU_WEIGHT, REGRET_WEIGHT = 0.6, 0.4
REGRET_SCALE = 0.15


def plateau(win_rate: float, *, low: float = LOW, high: float = HIGH, ramp: float = RAMP) -> float:
    """Return 1 on [low, high], falling linearly to 0 over ``ramp`` on either side.

    Formula: clip(1 − max(low − w, w − high, 0) / ramp, 0, 1). Range: [0, 1].

    Args:
        win_rate: Win rate, or mean return (which may be negative).
        low: Lower edge of the plateau.
        high: Upper edge, at least ``low``.
        ramp: Width of each slope, greater than 0.

    Raises:
        ValueError: ``win_rate`` is not finite, or a setting is out of range.

    Source: method, section 5 (late 4B phase: .2, .4, ramp .2).
    """
    at_least("ramp", ramp, 0.0, strictly=True)
    if not low <= high:
        raise ValueError(f"low must not be greater than high, got {low!r} and {high!r}")
    rate = float(finite("win_rate", win_rate))
    return min(1.0, max(0.0, 1.0 - max(low - rate, rate - high, 0.0) / ramp))


def clipped_regret(regret: float, *, scale: float = REGRET_SCALE) -> float:
    """Return clip(regret / scale, 0, 1), in [0, 1].

    Raises:
        ValueError: ``regret`` is not finite, or ``scale`` is not positive.

    Source: method, section 5.
    """
    at_least("scale", scale, 0.0, strictly=True)
    return min(1.0, max(0.0, float(finite("regret", regret)) / scale))


def plateau_score(
    outcomes: Outcomes,
    *,
    of: Measure = "win",
    num_windows: int | None = None,
    low: float = LOW,
    high: float = HIGH,
    ramp: float = RAMP,
) -> Score | Unknown:
    """:func:`plateau` of the win rate of the plays without the hint.

    Range: [0, 1]. Standard error: none (the function has corners).

    Args:
        outcomes: Plays of one task; hinted ones are left out.
        of: ``win`` (share won) or ``return`` (mean return, as the ``paper-*`` recipes do).
        num_windows: Only the last so many windows; ``None`` takes all.
        low: As in :func:`plateau`.
        high: As in :func:`plateau`.
        ramp: As in :func:`plateau`.

    Raises:
        ValueError: A return is not finite, or a setting is out of range.

    Source: method, section 5. With weight 1 this is the *solve-rate only* ablation.
    """
    values = plain_values(outcomes, of, num_windows=num_windows)
    if not len(values):
        return Unknown("no plays without the hint")
    return Score(plateau(float(values.mean()), low=low, high=high, ramp=ramp), None, len(values))


def solve_rate_score(outcomes: Outcomes, *, of: Measure = "win", num_windows: int | None = None) -> Score | Unknown:
    """The designer's reward without regret: the plateau with weight 1, in [0, 1].

    Args:
        outcomes: Plays of one task.
        of: As in :func:`plateau_score`.
        num_windows: As in :func:`plateau_score`.

    Raises:
        ValueError: A return is not finite.

    Source: method, section 5 (*solve-rate only*).
    """
    return plateau_score(outcomes, of=of, num_windows=num_windows)


def spade_score(
    outcomes: Outcomes,
    *,
    of: Measure = "win",
    pairing: Pairing = "plain",
    pool: RegretPool | None = None,
    num_windows: int | None = None,
    low: float = LOW,
    high: float = HIGH,
    ramp: float = RAMP,
    plateau_weight: float = PLATEAU_WEIGHT,
    regret_weight: float = REGRET_WEIGHT,
    regret_scale: float = REGRET_SCALE,
) -> Score | Unknown:
    """The designer's raw reward of SPADE.

    Formula: 0.6 · plateau(win rate over the windows) + 0.4 · clip(regret / 0.15, 0, 1). Range: [0, 1] with the
    default weights. Standard error: none (both terms have corners).

    Args:
        outcomes: Plays of one task: those without the hint of every window, and those with it.
        of: What the win rate is: ``win`` (share won) or ``return`` (mean return, as published). Regret is
            always of returns.
        pairing: Of the regret; ``plain`` is the published formula.
        pool: Shrinks the regret; ``None`` is the published formula.
        num_windows: Windows of the win rate; ``None`` takes all.
        low: As in :func:`plateau`.
        high: As in :func:`plateau`.
        ramp: As in :func:`plateau`.
        plateau_weight: Weight of the first term, in [0, 1].
        regret_weight: Weight of the second term, in [0, 1].
        regret_scale: Regret that earns the whole second term.

    Returns:
        The score, or unknown when either term is: a missing hint arm is not a regret of 0, and a task that was
        not played has no win rate.

    Raises:
        ValueError: A return is not finite, or a setting is out of range.

    Source: method, section 5 (SPADE, arXiv:2608.19197).
    """
    within("plateau_weight", plateau_weight, 0.0, 1.0)
    within("regret_weight", regret_weight, 0.0, 1.0)
    level = plateau_score(outcomes, of=of, num_windows=num_windows, low=low, high=high, ramp=ramp)
    regret = hint_regret(outcomes, pairing=pairing, pool=pool)
    if isinstance(level, Unknown):
        return level
    if isinstance(regret, Unknown):
        return regret
    term = clipped_regret(regret.value, scale=regret_scale)
    return Score(plateau_weight * level.value + regret_weight * term, None, len(outcomes))
