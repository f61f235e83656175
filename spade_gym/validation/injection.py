"""Does a player's text get evaluated as Python? Check ``eval_injection``.

Found by trying: names that nobody defines are sent where answers stand. They turn up in the audit log when they
reach ``eval``, ``exec`` or ``compile``, or in the error that they cause. Answers written as expressions that only
an interpreter can compute show the same where no error comes out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from spade_gym.validation import actions
from spade_gym.validation.access import AUDIT_WORLD, text_reached_eval
from spade_gym.validation.context import SEEDS, Context
from spade_gym.validation.finding import Finding, failure, warning
from spade_gym.validation.plays import Play, script

CANARY = "spade_canary_7319"
_ARITHMETIC_CANARY = "73197319"
_PAYLOADS = (
    CANARY,
    f"(lambda: {CANARY})()",
    f"__import__('{CANARY}')",
    f"[].append({CANARY}) or 7",
    f"1 if {CANARY} else 0",
    f"{CANARY} + 1",
)
_HARMLESS_PAYLOADS = (f"{_ARITHMETIC_CANARY} + 1", f"({_ARITHMETIC_CANARY})", _ARITHMETIC_CANARY)
_MIN_ACCEPTED = 3
_EVALUATORS = ("eval", "exec", "compile")


def check_eval_injection(context: Context) -> Iterator[Finding]:
    """No text of a player is evaluated as Python.

    Source: issue 2, point 6; ``eval`` of text that can only hold arithmetic is noted, not rejected.
    """
    if context.is_tool_use:
        return
    plays = _play_payloads(context, _PAYLOADS)
    yield from _confirmed(context, plays) or _computed(context) or _suspected(context)


def _play_payloads(context: Context, payloads: tuple[str, ...]) -> list[Play]:
    """Each payload instead of the last word of the last line of the solution, and of announced commands."""
    lines = context.solution_actions(SEEDS[0])
    ends = [actions.unboxed(line) for line in [*lines[-1:], *context.commands[:4], *context.announcement.templates[:4]]]
    heads = list(dict.fromkeys(["", *(_head(end) for end in ends)]))
    scripts = [[actions.boxed(f"{head}{payload}")] for payload in payloads for head in heads]
    scripts += [[payload] for payload in payloads]
    if len(lines) > 1:
        scripts += [[*lines[:-1], moves[0]] for moves in scripts[: len(heads) * 2]]
    items = [(SEEDS[0], script(moves)) for moves in scripts]
    return context.player(AUDIT_WORLD).play_many(items, steps=context.steps, origin="probe", batch=8, reuse=True)


def _head(command: str) -> str:
    """The command without its last word: ``guess `` of ``guess 7``."""
    head, space, _ = command.rpartition(" ")
    return head + space


def _confirmed(context: Context, plays: list[Play]) -> list[Finding]:
    lines = text_reached_eval(context, CANARY)
    failed = [play for play in plays if play.fault is not None and f"name '{CANARY}' is not defined" in str(play.fault)]
    if not lines and not failed:
        return []
    where = f"in line {lines[0]}" if lines else f"({failed[0].fault})"
    evidence = failed[0].evidence() if failed else {"payloads": list(_PAYLOADS), "lines": lines}
    return [failure("eval_injection", f"a player's text is evaluated as Python {where}; parse it instead", **evidence)]


def _computed(context: Context) -> list[Finding]:
    """Right answers written as Python expressions, which win only where they are evaluated."""
    tries: dict[str, list[tuple[int, list[str]]]] = {}
    for seed in SEEDS:
        lines = context.solution_actions(seed)
        last = actions.unboxed(lines[-1]) if lines else ""
        head = _head(last)
        for kind, text in disguises(last[len(head) :]).items():
            tries.setdefault(kind, []).append((seed, [*lines[:-1], actions.boxed(head + text)]))
    for kind, scripts in tries.items():
        items = [(seed, script(moves)) for seed, moves in scripts]
        plays = context.player().play_many(items, steps=context.steps, origin="search", reuse=True)
        won = [play for play in plays if play.won]
        if len(won) >= _MIN_ACCEPTED and not _wins_anyway(context, scripts):
            message = f"the answer check computes {kind}: a player's text is evaluated as Python; parse it instead"
            evidence = {"seeds": [play.seed for play in won], "actions": won[0].actions, "rewards": won[0].rewards}
            return [failure("eval_injection", message, **evidence)]
    return []


def _wins_anyway(context: Context, scripts: list[tuple[int, list[str]]]) -> bool:
    """Nonsense in the place of the expression wins as well, so nothing was computed."""
    items = [(seed, script([*moves[:-1], actions.GARBAGE[0]])) for seed, moves in scripts]
    plays = context.player().play_many(items, steps=context.steps, origin="search", reuse=True)
    return sum(play.won for play in plays) >= _MIN_ACCEPTED


def disguises(answer: str) -> dict[str, str]:
    """Expressions that only an interpreter can turn into the answer, by description.

    Picking digits or letters out of them, first, last or all, does not give the answer.
    """
    if re.fullmatch(r"[1-9]\d{0,5}", answer) and int(answer) >= 3:
        return {"a function call": f"(lambda: {int(answer) - 1} + 1)()"}
    if len(answer) > 1 and answer.isalnum() and answer.casefold() != answer[::-1].casefold():
        return {"a reversed text": f"'{answer[::-1]}'[::-1]"}
    return {}


def _suspected(context: Context) -> list[Finding]:
    """``eval`` in the source that no name of a player reached; arithmetic may reach it."""
    calls = [
        node.lineno
        for node in ast.walk(ast.parse(context.program.source))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _EVALUATORS
    ]
    if not calls:
        return []
    _play_payloads(context, _HARMLESS_PAYLOADS)
    reached = text_reached_eval(context, _ARITHMETIC_CANARY)
    what = "numbers of a player reach it, names do not" if reached else "no text of a player was seen to reach it"
    message = f"the source calls {', '.join(_EVALUATORS)} in line {calls[0]}; {what}"
    return [warning("eval_injection", message, lines=calls, arithmetic_reaches_it=bool(reached))]
