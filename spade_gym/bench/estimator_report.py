"""The estimators' simulation as a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spade_gym.bench.estimators import CONCENTRATION, GOAL_PLAYS, GOALS


def report(result: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a table of a result of :func:`~spade_gym.bench.estimators.simulate`."""
    tables = {
        f"instance concentration {CONCENTRATION:g}": result["rows"],
        **{f"instance concentration {c}": rows for c, rows in result["rows_by_concentration"].items()},
        **{f"population of regrets: {kind}": rows for kind, rows in result["rows_by_population"].items()},
    }
    for title, rows in tables.items():
        yield title
        yield f"  {'estimator':14}{'plays':>6}{'bias':>9}{'rmse':>8}{'spearman':>10}{'clipped mean at 0':>19}"
        for row in rows:
            yield (
                f"  {row['estimator']:14}{row['plays_per_arm']:6}{row['bias']:+9.4f}{row['rmse']:8.4f}"
                f"{row['spearman']:10.3f}{row['clipped_mean_at_zero']:19.3f}"
            )
    yield "true regret of the 3 programs chosen of 24"
    yield f"  {'allocation':22}{'plays':>6}{'regret':>8}{'pairs used':>12}"
    for row in result["top3"]:
        yield f"  {row['allocation']:22}{row['plays_per_arm']:6}{row['regret']:8.3f}{row['pairs_used']:12.1f}"
    even = result["plain_clipped_mean_at_zero_if_even"]
    yield f"plain clipped mean at true regret 0 and p = 0.5, {GOAL_PLAYS} plays an arm: {even:.3f}"
    for name, bound, upper in GOALS:
        goal = result["goals"][name]
        limit = f"{'at most' if upper else 'at least'} {bound:g}"
        met = "met" if goal["met"] else "MISSED"
        yield f"paired_shrunk at {GOAL_PLAYS} plays: {name} {goal['reached']:g}   {limit}: {met}"
