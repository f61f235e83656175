"""Whole cycles for tests: small programs, a scripted agent, checks that only load."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from models.scripted_model import ScriptedModel, last_user_text
from selfplay.small_replies import write_replies

from spade_gym.models.base import ModelRequest
from spade_gym.programs.program import Program
from spade_gym.selfplay.recipe import Recipe
from spade_gym.selfplay.recipe_file import read_recipe
from spade_gym.selfplay.run import Run, open_run
from spade_gym.validation.finding import Verdict, failure

SETTINGS = [
    "cycle.setting=single_turn", "cycle.rollouts=4", "cycle.regenerate_every=2", "cycle.environments=3",
    "cycle.plays=4", "cycle.hint_plays=4", "hints.source=model", "designer.jobs=1", "agent.max_turns=2",
    "agent.turn_tokens=200", "agent.total_tokens=400", "agent.context_tokens=none", "agent.example=false",
    "agent.stop=[]", "cycle.seed=3", "designer.max_attempts=3", "cycle.skills=[]", "cycle.least_accepted=0.5",
]  # fmt: skip


def small_recipe(folder: Path, *overrides: str) -> Recipe:
    replies = write_replies(folder / "replies", flawed=2)
    return read_recipe("recorded-demo", [*SETTINGS, f"designer.name=recorded:{replies}", *overrides])


def accept(program: Program) -> Verdict:
    """Accept what reads; the checks have tests of their own."""
    failures = (failure("smoke", "planted"),) if "# reject" in program.source else ()
    return Verdict(
        file="", accepted=not failures, digest=program.digest, class_name=program.manifest.class_name, repairs=(),
        adapters=(), failures=failures, warnings=(), seconds=0.0, program=program,
    )  # fmt: skip


def script(request: ModelRequest) -> str:
    """Know the answer sometimes, and more often with a hint; write hints when asked for one."""
    text = last_user_text(request)
    if request.key.startswith("hint/"):
        return "Work it out digit by digit and check the result."
    luck = int.from_bytes(hashlib.sha256(f"{request.key} {request.seed}".encode()).digest()[:2]) / 65536
    first = request.messages[0].content if request.messages[0].role == "user" else text
    found = re.search(r"What is the (\w+) of (\d+) and (\d+)", "\n".join(m.content for m in request.messages))
    if found is None or luck > (0.8 if "HINT: " in first else 0.4):
        return "I do not know: \\boxed{0}"
    return f"Let me see. \\boxed{{{_answer(found[1], int(found[2]), int(found[3]))}}}"


def _answer(what: str, left: int, right: int) -> int:
    answers: Mapping[str, int] = {
        "sum": left + right, "product": left * right, "difference": abs(left - right),
        "remainder": (left * 7 + right) % 1009, "maximum": max(left, right) * 3, "minimum": min(left, right) * 3 + 1,
        "blend": left * 2 + right * 5, "fold": left ^ right,
    }  # fmt: skip
    return answers[what]


def small_run(folder: Path, recipe: Recipe, **options: Any) -> Run:
    options.setdefault("agent", ScriptedModel(script))
    options.setdefault("judge", accept)
    return open_run(recipe, folder, **options)
