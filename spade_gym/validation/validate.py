"""The checks in their order, and the verdict on a program or on a model's reply.

A finding is a *failure*, which rejects, or a *warning*, which is a note. Nothing is accepted on doubt: a check
that cannot do its work is a failure "not checked". A broken sandbox raises and says nothing about the program.
Source: method, section 4. The LLM screen of tool-use programs (point 4) is the designer's business.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from spade_gym.errors import ProgramFault, ReplyError, SandboxError
from spade_gym.programs.manifest_values import MAX_TURNS
from spade_gym.programs.program import Program
from spade_gym.programs.reply import program_from_reply
from spade_gym.sandbox.base import Isolation, Limits
from spade_gym.types import Setting
from spade_gym.validation.access import check_access, check_input_call
from spade_gym.validation.answers import check_empty_answer
from spade_gym.validation.availability import check_availability, faults_in
from spade_gym.validation.context import Context, ResetGate
from spade_gym.validation.criteria import check_reset_gate
from spade_gym.validation.determinism import check_determinism, check_shared_state
from spade_gym.validation.finding import Finding, Verdict, failure, warning
from spade_gym.validation.injection import check_eval_injection
from spade_gym.validation.leaks import check_answer_leak
from spade_gym.validation.loading import check_load, check_smoke
from spade_gym.validation.plays import Unresponsive
from spade_gym.validation.policies import check_trivial_policy
from spade_gym.validation.rewards import check_reward
from spade_gym.validation.search import check_unwinnable
from spade_gym.validation.solutions import check_solution
from spade_gym.validation.termination import check_termination
from spade_gym.validation.tool_schemas import check_tool_schema

__all__ = ["CHECKS", "Check", "Finding", "Verdict", "validate", "validate_reply"]


class Check(NamedTuple):
    """A named question about a program.

    Attributes:
        name: As findings name it.
        run: Gives the findings.
        needs_play: It makes sense only for a program that can be loaded and reset.
    """

    name: str
    run: Callable[[Context], Iterable[Finding]]
    needs_play: bool = True


#: In this order. The last two judge the plays of all the others as well.
CHECKS: tuple[Check, ...] = (
    Check("load", check_load, needs_play=False),
    Check("smoke", check_smoke, needs_play=False),
    Check("tool_schema", check_tool_schema),
    Check("reset_gate", check_reset_gate),
    Check("solution", check_solution),
    Check("determinism", check_determinism),
    Check("shared_state", check_shared_state),
    Check("termination", check_termination),
    Check("access", check_access, needs_play=False),
    Check("input_call", check_input_call, needs_play=False),
    Check("trivial_policy", check_trivial_policy),
    Check("empty_answer", check_empty_answer),
    Check("unwinnable", check_unwinnable),
    Check("answer_leak", check_answer_leak),
    Check("eval_injection", check_eval_injection),
    Check("availability", check_availability),
    Check("reward", check_reward),
)


def validate(
    program: Program,
    *,
    isolation: Isolation | str | None = None,
    limits: Limits | None = None,
    reset_gate: ResetGate = "any",
    file: str = "",
) -> Verdict:
    """Run all checks on a program.

    Args:
        program: The program.
        isolation: Demanded isolation, not L0; ``None`` for the secure default.
        limits: Limits of the program's workers.
        reset_gate: ``any``, or ``all`` for the paper's weaker rule.
        file: What to call the program in the verdict; its name by default.

    Raises:
        SandboxError: The sandbox cannot do its work; nothing may be concluded about the program.
    """
    if Isolation.parse(isolation) is Isolation.L0:
        raise SandboxError("programs are checked in a worker of their own; ask for isolation L1, L2 or L3, not L0")
    started = time.perf_counter()
    findings: list[Finding] = []
    with Context(program, isolation=isolation, limits=limits, reset_gate=reset_gate) as context:
        for check in CHECKS:
            if check.needs_play and not context.is_playable:
                continue
            try:
                findings += _run(check, context)
            except Unresponsive as stop:
                findings += _stopped(check, stop)
                break
        program = _completed(context)
    notes = [warning("repair", name, name=name) for name in program.manifest.repairs]
    notes += [warning("adapter", name, name=name) for name in program.manifest.adapters]
    return _verdict(file or program.name, program, [*notes, *findings], time.perf_counter() - started)


def _run(check: Check, context: Context) -> list[Finding]:
    """The check's findings; one that breaks down counts as a failure, except for the sandbox's own errors."""
    try:
        return list(check.run(context))
    except (SandboxError, Unresponsive):
        raise
    except ProgramFault as fault:
        return [failure(check.name, f"not checked: the program fails: {fault}", fault=str(fault))]
    except Exception as error:  # the boundary of a check: fail closed
        message = f"not checked: the check itself failed with {type(error).__name__}: {error}"
        return [failure(check.name, message, error=repr(error))]


def _stopped(check: Check, stop: Unresponsive) -> list[Finding]:
    """Failures for a program that cannot be probed further."""
    message = f"{stop}; no checks were made after {check.name!r}"
    return [*faults_in([stop.play]), failure("availability", message, stopped_in=check.name, **stop.play.evidence())]


def _completed(context: Context) -> Program:
    """The program with what the checks learned in its manifest: adapters in use and the turn limit."""
    try:
        report = context.session().report
    except ProgramFault:
        return context.program
    adapters = tuple(dict.fromkeys([*context.program.manifest.adapters, *report.adapters]))
    turns = context.program.manifest.max_turns or report.max_turns
    changes: dict[str, Any] = {"adapters": adapters}
    if turns is not None and 1 <= turns <= MAX_TURNS:
        changes["max_turns"] = turns
    return context.program.with_manifest(**changes)


def _verdict(file: str, program: Program, findings: Iterable[Finding], seconds: float) -> Verdict:
    findings = list(findings)
    failures = tuple(finding for finding in findings if finding.severity == "failure")
    return Verdict(
        file=file,
        accepted=not failures,
        digest=program.digest,
        class_name=program.manifest.class_name,
        repairs=program.manifest.repairs,
        adapters=program.manifest.adapters,
        failures=failures,
        warnings=tuple(finding for finding in findings if finding.severity == "warning"),
        seconds=seconds,
        program=program,
    )


def validate_reply(
    text: str,
    *,
    name: str,
    setting: Setting | None = None,
    skill: str = "",
    origin: Mapping[str, str] | None = None,
    isolation: Isolation | str | None = None,
    limits: Limits | None = None,
    reset_gate: ResetGate = "any",
) -> Verdict:
    """Read a program from a model's reply and run all checks on it.

    Args:
        text: The reply as it came.
        name: What to call it in the verdict, for example its file name.
        setting: ``single_turn``, ``multi_turn`` or ``tool_use``; found from the program by default.
        skill: The skill that was asked for.
        origin: Where the reply came from.
        isolation: Demanded isolation, not L0; ``None`` for the secure default.
        limits: Limits of the program's workers.
        reset_gate: ``any``, or ``all`` for the paper's weaker rule.

    Raises:
        SandboxError: The sandbox cannot do its work; nothing may be concluded about the program.
    """
    started = time.perf_counter()
    try:
        program = program_from_reply(text, setting=setting, skill=skill, origin=dict(origin) if origin else None)
    except ReplyError as error:
        found = failure(error.check, str(error))
        return Verdict(name, False, "", "", (), (), (found,), (), time.perf_counter() - started)
    return validate(program, isolation=isolation, limits=limits, reset_gate=reset_gate, file=name)
