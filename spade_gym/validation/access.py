"""Does the program reach for anything outside itself? Checks ``access`` and ``input_call``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from spade_gym.sandbox.base import World
from spade_gym.validation import actions
from spade_gym.validation.context import SEEDS, Context
from spade_gym.validation.finding import Finding, failure, warning
from spade_gym.validation.plays import script

#: The world in which attempts are recorded.
AUDIT_WORLD = World(audit=True)
#: What a program's own code must not touch, even when it catches the refusal (method, section 4, point 5).
FORBIDDEN = {
    "file": "a file",
    "network": "the network",
    "process": "another process",
    "environment": "an environment variable",
    "native": "native code (ctypes)",
    "thread": "a thread",
}
_NUM_SOLUTIONS = 2
_NUM_PROBES = 40


def check_access(context: Context) -> Iterator[Finding]:
    """No attempt at a file, the network, a process, the environment, native code or a thread."""
    if context.is_playable:
        _play_under_audit(context)
    else:
        context.player(AUDIT_WORLD).play(SEEDS[0], script([]), steps=0, origin="reset")
    rows = context.session(AUDIT_WORLD).accesses()
    for kind, what in FORBIDDEN.items():
        found = [row for row in rows if row.kind == kind]
        if found:
            first = found[0]
            attempts = [{"detail": row.detail, "line": row.line, "count": row.count} for row in found]
            yield failure(
                "access",
                f"the program tries to use {what}: {first.detail} in line {first.line}. It must live on its own state",
                kind=kind, attempts=attempts, count=sum(row.count for row in found),
            )  # fmt: skip


def _play_under_audit(context: Context) -> None:
    player = context.player(AUDIT_WORLD)
    solutions = [(seed, script(context.solution_actions(seed))) for seed in SEEDS[:_NUM_SOLUTIONS]]
    player.play_many(solutions, steps=context.steps, origin="solution")
    probes = [probe for probe in context.probes if not actions.is_huge(probe)][:_NUM_PROBES]
    player.play_many([(SEEDS[0], script([probe])) for probe in probes], steps=1, origin="probe", batch=8, reuse=True)


def check_input_call(context: Context) -> Iterator[Finding]:
    """Nobody sits at a keyboard: ``input()`` must not be called when playing."""
    rows = [row for row in context.session(AUDIT_WORLD).accesses() if row.kind == "input"]
    if rows:
        yield failure(
            "input_call",
            f"the program calls input() in line {rows[0].line}; there is nobody to answer. Return an observation "
            "that says what was wrong with the action instead",
            line=rows[0].line, count=sum(row.count for row in rows),
        )  # fmt: skip
        return
    for function, line in _input_calls(context.program.source):
        message = f"{function}() calls input() in line {line}, though no probe reached it"
        make = failure if function in ("step", "reset") else warning
        yield make("input_call", message, line=line, function=function)


def _input_calls(source: str) -> list[tuple[str, int]]:
    """Functions that call ``input``, with the line; code outside functions (a main guard) does not count."""
    found: list[tuple[str, int]] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            found += [(node.name, call.lineno) for call in ast.walk(node) if _is_input(call)]  # type: ignore[attr-defined]
    return found


def _is_input(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "input"


def text_reached_eval(context: Context, canary: str) -> list[int]:
    """Lines in which the program evaluated or compiled a text that holds the canary."""
    rows = context.session(AUDIT_WORLD).accesses()
    return [row.line for row in rows if row.kind == "eval" and canary in row.detail]
