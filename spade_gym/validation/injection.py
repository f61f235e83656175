"""Does a player's text get evaluated as Python? Check ``eval_injection``.

Found by trying: names that nobody defines are sent where answers stand. They turn up in the audit log when they
reach ``eval``, ``exec`` or ``compile``, or in the error that they cause. Answers written as expressions that only
an interpreter can compute show the same where no error comes out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from spade_gym.validation import actions
from spade_gym.validation.access import AUDIT_WORLD, text_reached_eval
from spade_gym.validation.context import SEEDS, Context
from spade_gym.validation.finding import Finding, failure, warning
from spade_gym.validation.plays import Play, script

#: Without digits, which answer checks count and compare.
CANARY = "spade_canary"
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
_FAR = 50_000_000
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
    scripts += [[*lines[:-1], actions.boxed(text)] for text in _grafted(lines)]
    items = [(SEEDS[0], script(moves)) for moves in scripts]
    return context.player(AUDIT_WORLD).play_many(items, steps=context.steps, origin="probe", batch=8, reuse=True)


def _grafted(lines: list[str]) -> list[str]:
    """The last line of the solution with a name in it: passes checks of which numbers or letters an answer holds."""
    last = actions.unboxed(lines[-1]) if lines else ""
    head = _head(last)
    texts = [f"{last} or {CANARY}", f"({last}, {CANARY})[0]", f"{head}{last[len(head) :]} or {CANARY}"]
    return list(dict.fromkeys(texts)) if last else []


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


class Disguise(NamedTuple):
    """A right answer written as an expression, and the texts that show whether it wins without being computed.

    Attributes:
        text: What only an interpreter can turn into the answer.
        parts: What a lenient reader may take out of it.
    """

    text: str
    parts: tuple[str, ...]


def _computed(context: Context) -> list[Finding]:
    """Right answers written as Python expressions, which win only where they are evaluated."""
    tries: dict[str, list[tuple[int, list[str], Disguise]]] = {}
    for seed in SEEDS:
        lines = context.winning_actions(seed)
        last = actions.unboxed(lines[-1]) if lines else ""
        head = _head(last)
        for kind, disguise in disguises(last[len(head) :]).items():
            tries.setdefault(kind, []).append((seed, [*lines[:-1], head], disguise))
        if last:
            whole = Disguise(f"{last} if True else {CANARY}", (f"{last} so True else {CANARY}",))
            tries.setdefault("a conditional expression", []).append((seed, [*lines[:-1], ""], whole))
    for kind, rows in tries.items():
        won = _won(context, [(seed, [*moves[:-1], moves[-1] + item.text]) for seed, moves, item in rows])
        if len(won) < _MIN_ACCEPTED:
            continue
        parts = [(seed, [*moves[:-1], moves[-1] + part]) for seed, moves, item in rows for part in item.parts]
        nonsense = [(seed, [*moves[:-1], actions.unboxed(actions.GARBAGE[0])]) for seed, moves, _ in rows]
        won_anyway = {play.seed for play in _won(context, [*parts, *nonsense])}
        computed = [play for play in won if play.seed not in won_anyway]
        if len(computed) >= _MIN_ACCEPTED:
            message = f"the answer check computes {kind}: a player's text is evaluated as Python; parse it instead"
            evidence = {"seeds": [play.seed for play in computed], "actions": computed[0].actions}
            return [failure("eval_injection", message, rewards=computed[0].rewards, **evidence)]
    return []


def _won(context: Context, scripts: list[tuple[int, list[str]]]) -> list[Play]:
    """The plays that win; the last of each list of moves is put into a box."""
    items = [(seed, script([*moves[:-1], actions.boxed(moves[-1])])) for seed, moves in scripts]
    plays = context.player().play_many(items, steps=context.steps, origin="search", reuse=True)
    return [play for play in plays if play.won]


def disguises(answer: str) -> dict[str, Disguise]:
    """Expressions that only an interpreter can turn into the answer, by description.

    The numbers in them are far from the answer, so that a check with a tolerance does not take them for it.
    """
    if re.fullmatch(r"[1-9]\d{0,5}", answer) and int(answer) >= 3:
        large, offset = int(answer) + _FAR, _FAR
        return {"a function call": Disguise(f"(lambda: {large} - {offset})()", (str(large), str(offset)))}
    if len(answer) > 1 and answer.isalnum() and answer.casefold() != answer[::-1].casefold():
        return {"a reversed text": Disguise(f"'{answer[::-1]}'[::-1]", (answer[::-1],))}
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
