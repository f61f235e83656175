"""From a model's reply to a :class:`~spade_gym.programs.program.Program`, or to the reason why there is none."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from spade_gym.errors import ReplyError
from spade_gym.programs.contract import Contract, read_contract
from spade_gym.programs.extract import Candidate, Extraction, extract
from spade_gym.programs.manifest_values import MAX_TURNS
from spade_gym.programs.names import unbound_names
from spade_gym.programs.program import Manifest, Program
from spade_gym.programs.sanitise import Sanitised, sanitise
from spade_gym.programs.syntax import MAX_CHARS, parse
from spade_gym.types import Setting

#: Steps of the extraction that deserve a note in the manifest.
_NOTED_STEPS = ("unclosed_think", "inner_fence", "unclosed_fence", "joined_fences")
#: Characters of candidates that are looked at before giving up; bounds the time that a hostile reply takes.
_BUDGET_CHARS = 2_000_000
_MAX_CLASS_NAME = 200


class _Found(NamedTuple):
    """A candidate that fulfils the contract."""

    candidate: Candidate
    sanitised: Sanitised
    contract: Contract
    unbound: int

    @property
    def self_contained(self) -> bool:
        """Whether the text itself defines every name that it uses."""
        return self.unbound == 0 and "missing_import" not in self.sanitised.repairs


class _Failure(NamedTuple):
    """A candidate that does not, and why."""

    candidate: Candidate
    error: ReplyError


def program_from_reply(
    reply: str,
    *,
    name: str | None = None,
    setting: Setting | None = None,
    skill: str = "",
    origin: Mapping[str, str] | None = None,
) -> Program:
    """Read the program out of a raw reply of a language model.

    Args:
        reply: Everything the model wrote: thoughts, prose, fences, code.
        name: The program's name; by default made from its class.
        setting: What was asked for; by default guessed from the text.
        skill: The skill that was asked for.
        origin: Where the reply comes from (``kind``, ``designer``, ``document``, …).

    Returns:
        The repaired program; its manifest names the repairs and the adapters that its text calls for.

    Raises:
        ReplyError: There is no usable program: none was written (check ``extract``), it does not compile or was
            cut off (``syntax``), or it has no environment class (``contract``).
        ManifestError: ``name`` or another given field is not usable.
    """
    _check_size(reply)
    extraction = extract(reply)
    found, failures = _search(extraction)
    if found is None:
        raise _most_informative(extraction, failures)
    noted = [step for step in found.candidate.steps if step in _NOTED_STEPS]
    return _build(found, noted, name=name, setting=setting, skill=skill, origin=origin)


def program_from_source(
    source: str,
    *,
    name: str | None = None,
    setting: Setting | None = None,
    skill: str = "",
    origin: Mapping[str, str] | None = None,
) -> Program:
    """Make a program of source text, repaired where needed.

    Args:
        source: The text of a Python module.
        name: The program's name; by default made from its class.
        setting: By default guessed from the text.
        skill: The skill that it tests.
        origin: Where the text comes from.

    Raises:
        ReplyError: The text does not compile (check ``syntax``) or has no environment class (``contract``).
        ManifestError: ``name`` or another given field is not usable.
    """
    _check_size(source)
    if not source.strip():
        raise ReplyError("The source is empty; a Python module with an environment class is needed.", check="extract")
    found = _attempt(Candidate(source, ("bare",), 1, True), bare=False)
    return _build(found, [], name=name, setting=setting, skill=skill, origin=origin)


def _check_size(text: str) -> None:
    """Refuse what is no text, or too long to be a reply."""
    if not isinstance(text, str):
        raise ReplyError(f"A reply must be text (str), got {type(text).__name__}.", check="extract")
    if len(text) > MAX_CHARS:
        raise ReplyError(f"The reply has {len(text)} characters; at most {MAX_CHARS} are read.", check="extract")


def _search(extraction: Extraction) -> tuple[_Found | None, list[_Failure]]:
    """Try the candidates in order.

    The first that fulfils the contract wins; but when it uses names that it does not define, joined fences
    that define them all win over it.
    """
    first: _Found | None = None
    failures: list[_Failure] = []
    budget = _BUDGET_CHARS
    for candidate in extraction.candidates:
        joined = "joined_fences" in candidate.steps
        if (first is not None and not joined) or (failures and budget < len(candidate.source)):
            continue
        budget -= len(candidate.source)
        try:
            found = _attempt(candidate, bare=candidate.bare)
        except ReplyError as error:
            failures.append(_Failure(candidate, error))
            continue
        if found.self_contained:
            return found, failures
        first = first or found
    return first, failures


def _attempt(candidate: Candidate, *, bare: bool) -> _Found:
    """Sanitise a candidate and read its contract."""
    sanitised = sanitise(candidate.source, bare=bare)
    tree = parse(sanitised.source)
    contract = read_contract(tree)
    if not candidate.closed and _ends_abruptly(tree):
        raise ReplyError("The code compiles, but its last function ends without a result.", check="syntax")
    goes_on = "trailing_prose" in sanitised.repairs or candidate.source.rstrip().endswith(("```", "~~~"))
    if not candidate.closed and not contract.has_solution and not goes_on:
        raise ReplyError("The code compiles, but it ends before solution().", check="syntax")
    try:
        unbound = len(unbound_names(tree))
    except RecursionError as error:
        raise ReplyError("The program is nested too deeply to be read.", check="syntax") from error
    return _Found(candidate, sanitised, contract, unbound)


def _ends_abruptly(tree: ast.Module) -> bool:
    """Whether the last function of a module that nothing closes seems cut off between two statements.

    A finished function mostly ends with ``return``, ``raise`` or ``pass``; what does not is refused on doubt.
    """
    node: ast.AST = tree
    inside = False
    while body := getattr(node, "finalbody", None) or getattr(node, "orelse", None) or getattr(node, "body", None):
        if not isinstance(body, list):
            break
        node = body[-1]
        inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    return inside and not isinstance(node, ast.Return | ast.Raise | ast.Pass)


def _build(found: _Found, noted: list[str], *, name: str | None, setting: Setting | None, **fields: Any) -> Program:
    """Write the manifest of a found program."""
    contract = found.contract
    if len(contract.class_name) > _MAX_CLASS_NAME:
        raise ReplyError(
            f"The class name has {len(contract.class_name)} characters; at most {_MAX_CLASS_NAME} are taken.",
            check="contract",
        )
    manifest = Manifest(
        name=contract.name if name is None else name,
        setting=setting or contract.setting,
        class_name=contract.class_name,
        skill=fields["skill"],
        max_turns=contract.max_turns if (contract.max_turns or 0) <= MAX_TURNS else None,
        repairs=(*noted, *found.sanitised.repairs),
        adapters=contract.adapters,
        origin=dict(fields["origin"] or {}),
    )
    return Program(source=found.sanitised.source, manifest=manifest)


def _most_informative(extraction: Extraction, failures: list[_Failure]) -> ReplyError:
    """Choose what to tell the designer: a wrong class, else a cut-off reply, else the first code's fault."""
    if not failures:
        return _nothing_found(extraction)
    with_class = [item for item in failures if re.search(r"^\s*class\s+\w", item.candidate.source, re.MULTILINE)]
    chosen = (with_class or failures)[0]
    candidate, error = chosen
    where = f"The code starts at line {candidate.line} of the reply."
    if not candidate.closed and "bare" not in candidate.steps:
        last = candidate.line + candidate.source.rstrip().count("\n")
        ending = candidate.source.rstrip().rsplit("\n", 1)[-1].strip()
        return ReplyError(
            f"The reply is truncated: the fence opened at line {candidate.line - 1} is never closed, and the text "
            f"ends at line {last} with: {ending[-80:]!r}. {error} Ask again with a larger token budget.",
            check="syntax",
        )
    if not with_class and error.check == "syntax":
        return ReplyError(
            f"The reply holds no program: no class in it, and its code is none ({error})", check="extract"
        )
    return ReplyError(f"{error} {where}", check=error.check)


def _nothing_found(extraction: Extraction) -> ReplyError:
    """Say that a reply holds no code, and where code was seen instead."""
    if extraction.thought_code:
        return ReplyError(
            "The reply holds a class only inside its think block; the program must follow after </think>.",
            check="extract",
        )
    return ReplyError(
        "The reply holds no code: neither a fenced block nor a class. A program in one ```python block is needed.",
        check="extract",
    )
