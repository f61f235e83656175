"""The benchmark of curricula as a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def report(result: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a table of a result of :func:`~spade_gym.bench.curricula.measure`."""
    size = result["size"]
    yield f"toy environment: % of cells mastered after {size['episodes']} episodes, median of {size['seeds']} seeds"
    yield f"  {'preset':28}{'noiseless':>22}{'bernoulli':>22}{'trained on':>12}"
    rows = {(row["preset"], row["always_teaches"], row["feedback"]): row for row in result["toy"]["rows"]}
    for name, always in dict.fromkeys(key[:2] for key in rows):
        plain, noisy = rows[name, always, "noiseless"], rows[name, always, "bernoulli"]
        label = f"{name} (every play teaches)" if always else name
        yield (
            f"  {label:32}{_interval(plain['mastered']):>18}{_interval(noisy['mastered']):>22}"
            f"{100 * noisy['trained_share']:>10.0f} %"
        )
    yield f"7 × 7 mazes: % of held-out mazes won after {size['steps']} steps, median of {size['seeds']} seeds"
    yield f"  {'preset':28}{'mean':>22}{'worst tenth':>22}{'mean over uniform':>22}{'trained on':>12}"
    for row in result["maze"]["rows"]:
        yield (
            f"  {row['preset']:28}{_interval(row['mean']):>22}{_interval(row['worst_tenth']):>22}"
            f"{_interval(row['mean_over_uniform']):>22}{100 * row['trained_share']:>10.0f} %"
        )
    yield from report_cost(result["cost"])
    yield from _goals(result["toy"]["goals"], "%")


def report_cost(cost: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a table of a result of :func:`~spade_gym.bench.curricula_cost.measure`."""
    yield f"cost of a play with the preset {cost['preset']}, µs"
    yield f"  {'records':>8}{'ask':>8}{'tell':>8}{'both':>8}"
    for row in cost["rows"]:
        yield f"  {row['records']:8}{row['ask_us']:8.1f}{row['tell_us']:8.1f}{row['pair_us']:8.1f}"
    served = cost["served"]
    yield f"  server's processor time for both, {served['actors']} actors: {served['served_us']:.1f}"
    yield f"  CurriculumEnv, per step: {cost['wrapper_us']:.2f}"
    yield from _goals(cost["goals"], "")


def _goals(goals: dict[str, Any], unit: str) -> Iterator[str]:
    for name, goal in goals.items():
        bound = f"{'at least' if name == 'best_mastered' else 'at most'} {goal['bound']:g}{unit}"
        of = f" ({goal['preset']})" if "preset" in goal else ""
        yield f"{name}{of}: {goal['reached']:g}{unit}   {bound}: {'met' if goal['met'] else 'MISSED'}"


def _interval(found: dict[str, Any]) -> str:
    return f"{found['median']:.1f} [{found['low']:.1f}, {found['high']:.1f}]"
