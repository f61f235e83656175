"""The table of docs/grpo.md is what docs/benchmarks/trainer.json holds.

``python tests/trainers/bench/test_trainer_figures.py`` writes it anew. What was not measured stands there as such.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from spade_trainers.bench.trainer import GOALS

DOCS = Path(__file__).parents[3] / "docs"
PAGE, MARK = DOCS / "grpo.md", "<!-- figures: trainer -->\n"

#: What stands in the table: key, and what it is.
ROWS = (
    ("update_time_over_trl", "time of an update over TRL's"),
    ("update_processor_time_over_trl", "processor time of an update over TRL's"),
    ("update_processor_time_over_trl_nothing_shared", "the same, the prompt computed once a completion as TRL does"),
    ("peak_memory_over_trl", "peak memory above weights and moments over TRL's"),
    ("checkpointed_memory_over_trl", "the same, both with gradient checkpointing"),
    ("generation_over_trl", "tokens a second over TRL's"),
    ("packing_speedup", "packed and shared against rows at random"),
    ("packing_speedup_nothing_shared", "packed, nothing shared"),
    ("overhead_share", "of a rollout besides generation and update"),
)


def measured() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DOCS / "benchmarks" / "trainer.json").read_text("utf-8"))
    return found


def table() -> list[str]:
    found = measured()
    bounds = {name: f"{'≤' if upper else '≥'} {bound:g}" for name, bound, upper in GOALS}
    lines = ["| figure | bound | SmolLM2-135M | 2.9 M parameters | what it is |", "|---|---|---|---|---|"]
    for name, words in ROWS:
        cells = [shown(figures.get(name)) for figures in (found, found["tiny"])]
        lines.append(f"| `{name}` | {bounds.get(name, '')} | {' | '.join(cells)} | {words} |")
    return lines


def shown(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def test_the_table_is_what_was_measured() -> None:
    assert MARK + "\n".join(table()) + "\n\n" in PAGE.read_text("utf-8")


def test_date_and_machine_stand_beside_the_figures() -> None:
    found = measured()
    assert f"`spade-gym bench trainer --json`, {found['date']}, {found['machine']['class']}" in PAGE.read_text("utf-8")


def test_trl_was_measured_itself() -> None:
    for figures in (measured(), measured()["tiny"]):
        assert figures["update_reason"] is None
        sides = figures["update"]["sides"]
        assert sides["trl"]["setting"].startswith("trl 1.")
        ours, other = (sides[name]["first_gradient_norm"] for name in ("ours", "trl"))
        assert abs(ours / other - 1) < 0.01


def test_bounds_are_met() -> None:
    found = measured()
    missed = [name for name, bound, upper in GOALS if not (found[name] <= bound if upper else found[name] >= bound)]
    assert missed == []


def mend() -> None:
    text = PAGE.read_text("utf-8")
    lines = "\n".join(table())
    PAGE.write_text(re.sub(rf"({MARK})(?:\|[^\n]*\n)*", rf"\g<1>{lines}\n", text), "utf-8")


if __name__ == "__main__":
    mend()
