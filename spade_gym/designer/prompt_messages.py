"""What does a language model read when it is asked for a program?

One user message (some chat templates know no system role). A repair goes on from there: the model's own reply, then
the reasons for which it was refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from spade_gym.designer.domains import DOMAINS, VARIANTS
from spade_gym.designer.prompting import Prompts
from spade_gym.designer.quoting import code_block, framed, without_control_tokens
from spade_gym.designer.request import DesignRequest, Example
from spade_gym.designer.skills import DIFFICULTY_DESCRIPTIONS, SKILLS
from spade_gym.models.base import Message
from spade_gym.programs.boxed import without_thoughts

_Value = TypeVar("_Value")


def template_of(request: DesignRequest) -> str:
    """Return the name of the template that a request is written with."""
    if request.setting != "tool_use":
        return request.setting
    return "tool_use_single" if request.num_instructions <= 1 else "tool_use_multi"


def messages_for(request: DesignRequest, prompts: Prompts) -> tuple[Message, ...]:
    """Return the conversation that asks for a program.

    Raises:
        ValueError: Its skill, difficulty, domain or variant is unknown.
    """
    name = template_of(request)
    template = prompts[name]
    first = Message("user", template.fill(**_values(request, prompts)))
    if request.repair is None:
        return (first,)
    said = without_thoughts(request.repair.reply).strip() or request.repair.reply
    reasons = "\n".join(f"- {without_control_tokens(reason)}" for reason in request.repair.reasons)
    return (
        first,
        Message("assistant", without_control_tokens(said)),
        Message("user", prompts["repair"].fill(reasons=reasons)),
    )


def _values(request: DesignRequest, prompts: Prompts) -> dict[str, str]:
    skill = _known(SKILLS, request.skill, "skill")
    values = {
        "skill": request.skill,
        "description": skill.description,
        "difficulty": request.difficulty,
        "difficulty_description": _known(DIFFICULTY_DESCRIPTIONS, request.difficulty, "difficulty"),
        "material": _material(request, prompts),
        "positives": "".join(_positive(example, prompts) for example in request.positives),
        "negative": "" if request.negative is None else _negative(request.negative, prompts),
    }
    if request.setting == "tool_use":
        variant = _known(VARIANTS, request.variant, "variant")
        values |= {
            "domain": request.domain,
            "domain_description": _known(DOMAINS, request.domain, "domain"),
            "variant": variant.title,
            "variant_description": variant.description,
        }
        if request.num_instructions > 1:
            values["num_instructions"] = str(request.num_instructions)
    return values


def _material(request: DesignRequest, prompts: Prompts) -> str:
    """The document, or ideas where there is none."""
    kind = "tool" if request.setting == "tool_use" else "game"
    if request.document is None:
        return prompts[f"concepts_{kind}"].fill(concepts="; ".join(SKILLS[request.skill].concepts))
    document = framed(request.document.text, label="document", title=request.document.title)
    return prompts[f"document_{kind}"].fill(document=document)


def _positive(example: Example, prompts: Prompts) -> str:
    regret = "" if example.regret is None else f", and {example.regret:+.2f} more of the reward with a hint"
    return prompts["positive"].fill(
        win_rate=_percent(example.win_rate), regret=regret, source=code_block(example.source)
    )


def _negative(example: Example, prompts: Prompts) -> str:
    verdict = "too easy" if example.win_rate > 0.5 else "too hard"
    return prompts["negative"].fill(
        verdict=verdict, win_rate=_percent(example.win_rate), source=code_block(example.source)
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _known(table: Mapping[str, _Value], key: str, what: str) -> _Value:
    if key not in table:
        raise ValueError(f"{key!r} is no {what} of a design request; there are {', '.join(table)}")
    return table[key]
