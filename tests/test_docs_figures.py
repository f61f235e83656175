"""The tables of docs/curricula.md are what docs/benchmarks/*.json hold.

``python tests/test_docs_figures.py`` writes them anew. Each table stands after a comment with its name,
``<!-- figures: toy -->``, and ends with an empty line.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from spade_gym.bench import curricula
from spade_gym.bench.toy_training import teach
from spade_gym.curriculum import preset

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "curricula.md"
GOAL_PLAYS = 16


def measured(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DOCS / "benchmarks" / f"{name}.json").read_text("utf-8"))
    return found


def toy() -> list[str]:
    rows = {
        (row["preset"], row["always_teaches"], row["feedback"]): row for row in measured("curricula")["toy"]["rows"]
    }
    lines = ["| preset | noiseless | Bernoulli | episodes trained on |", "|---|---|---|---|"]
    for name, always in dict.fromkeys(key[:2] for key in rows):
        plain, noisy = rows[name, always, "noiseless"], rows[name, always, "bernoulli"]
        label = f"`{name}`, every play teaches" if always else f"`{name}`"
        cells = (label, interval(plain["mastered"]), interval(noisy["mastered"]), f"{noisy['trained_share']:.0%}")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def mazes() -> list[str]:
    lines = ["| preset | all | worst tenth | all, over `uniform` | steps trained on |", "|---|---|---|---|---|"]
    for row in measured("curricula")["maze"]["rows"]:
        found = [interval(row[key]) for key in ("mean", "worst_tenth", "mean_over_uniform")]
        lines.append(f"| `{row['preset']}` | {' | '.join(found)} | {row['trained_share']:.0%} |")
    return lines


def cost() -> list[str]:
    found = measured("curricula")["cost"]
    small, large = found["rows"]
    goals = found["goals"]
    return [
        "| what | measured | goal |", "|---|---|---|",
        f"| `ask` + `tell`, {small['records']:,} records | {small['ask_us']} + {small['tell_us']} µs | "
        f"≤ {goals['pair_us']['bound']:g} µs together |",
        f"| `ask` + `tell`, {large['records']:,} records | {large['ask_us']} + {large['tell_us']} µs | |",
        f"| `ask`, {large['records']:,} against {small['records']:,} records | {goals['ask_ratio']['reached']} × | "
        f"≤ {goals['ask_ratio']['bound']:g} × |",
        f"| the server's processor time for both, {found['served']['actors']} actors | "
        f"{found['served']['served_us']} µs | ≤ {goals['served_us']['bound']:g} µs |",
        f"| `CurriculumEnv`, per step | {found['wrapper_us']} µs | ≤ {goals['wrapper_us']['bound']:g} µs |",
    ]  # fmt: skip


def estimators() -> list[str]:
    found = measured("estimators")
    others = {**found["rows_by_concentration"], "harmful": found["rows_by_population"]["harmful"]}
    spearmans = {key: {row["estimator"]: row["spearman"] for row in at(rows)} for key, rows in others.items()}
    lines = [
        "| estimator | bias | MSE | Spearman | clipped mean at regret 0 | Spearman, c = 2 | c = 8 | a fifth harmful |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in at(found["rows"]):
        name = row["estimator"]
        rest = " | ".join(f"{spearmans[key][name]:.3f}" for key in ("2", "8", "harmful"))
        lines.append(
            f"| `{name}` | {row['bias']:+.3f} | {row['rmse'] ** 2:.4f} | {row['spearman']:.3f} | "
            f"{row['clipped_mean_at_zero']:.3f} | {rest} |"
        )
    return lines


def by_plays() -> list[str]:
    rows = {(row["estimator"], row["plays_per_arm"]): row for row in measured("estimators")["rows"]}
    plays = sorted({key[1] for key in rows})
    lines = [f"| RMSE at plays an arm | {' | '.join(map(str, plays))} |", "|---" * (len(plays) + 1) + "|"]
    for name in dict.fromkeys(key[0] for key in rows):
        lines.append(f"| `{name}` | " + " | ".join(f"{rows[name, n]['rmse']:.3f}" for n in plays) + " |")
    return lines


def top3() -> list[str]:
    rows = {(row["allocation"], row["plays_per_arm"]): row["regret"] for row in measured("estimators")["top3"]}
    plays = sorted({key[1] for key in rows})
    lines = [f"| plays an arm, on average | {' | '.join(map(str, plays))} |", "|---" * (len(plays) + 1) + "|"]
    for name in dict.fromkeys(key[0] for key in rows):
        lines.append(f"| `{name}` | " + " | ".join(f"{rows[name, n]:.3f}" for n in plays) + " |")
    return lines


TABLES = {
    "toy": toy, "mazes": mazes, "cost": cost, "estimators": estimators, "by-plays": by_plays, "top3": top3,
}  # fmt: skip


def at(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["plays_per_arm"] == GOAL_PLAYS]


def interval(found: dict[str, Any]) -> str:
    return f"{found['median']:.1f} [{found['low']:.1f}, {found['high']:.1f}]"


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_what_was_measured(name: str) -> None:
    assert f"<!-- figures: {name} -->\n" + "\n".join(TABLES[name]()) + "\n\n" in PAGE.read_text("utf-8")


def test_date_and_machine_stand_beside_the_figures() -> None:
    text = PAGE.read_text("utf-8")
    for name in ("curricula", "estimators"):
        found = measured(name)
        assert f"`spade-gym bench {name} --json`, {found['date']}, {found['machine']['class']}" in text


def test_every_preset_stands_in_the_page_and_in_the_figures() -> None:
    text = PAGE.read_text("utf-8")
    assert {row["preset"] for row in measured("curricula")["toy"]["rows"]} == set(preset.names())
    assert all(f"| `{name}`" in text for name in preset.names())
    assert f"`{preset.DEFAULT}` (default)" in text


def test_the_figures_are_those_of_the_presets_as_they_are() -> None:
    found = measured("curricula")
    assert found["presets"] == {name: preset.table(name) for name in curricula.TOY_PRESETS}
    assert found["default"] == preset.DEFAULT
    assert found["size"] == curricula.Size()._asdict()


def test_the_goals_are_met() -> None:
    found = measured("curricula")
    goals = [
        *found["toy"]["goals"].values(),
        *found["cost"]["goals"].values(),
        *measured("estimators")["goals"].values(),
    ]
    assert [goal for goal in goals if not goal["met"]] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plr", "robust-plr", "sfl", "alp", "spade"])
def test_a_run_gives_the_figure_again(name: str) -> None:
    rows = measured("curricula")["toy"]["rows"]
    row = next(row for row in rows if (row["preset"], row["feedback"]) == (name, "bernoulli"))
    assert round(teach(name, feedback="bernoulli", seed=1).mastered, 2) == row["mastered"]["values"][1]


def mend() -> None:
    text = PAGE.read_text("utf-8")
    for name, table in TABLES.items():
        lines = "\n".join(table())
        text = re.sub(rf"(<!-- figures: {name} -->\n)(?:\|[^\n]*\n)*", rf"\g<1>{lines}\n", text)
    PAGE.write_text(text, "utf-8")


if __name__ == "__main__":
    mend()
