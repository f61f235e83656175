"""What must be repaired before a program compiles and has the names it uses?

Every repair is a small pure function with a name; a repair is applied only when it is needed, in the order of
the tables below, and its name is recorded. A program that compiles as it is keeps its text, newlines aside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from spade_gym.errors import ReplyError
from spade_gym.programs import text_repairs
from spade_gym.programs.boxed_repair import backspace_boxed
from spade_gym.programs.brace_repair import brace_repair, literal_braces
from spade_gym.programs.host_repair import gym_import, host_base
from spade_gym.programs.import_repair import missing_import
from spade_gym.programs.newer_syntax import needs_312
from spade_gym.programs.syntax import Fault, fault_of

Stage = Literal["raw", "fence", "repaired"]
Repair = Callable[[str], str | None]

#: Before anything else: harmless to every program.
FIRST: tuple[Repair, ...] = (
    text_repairs.strip_bom,
    text_repairs.normalise_newlines,
    text_repairs.remove_language_tag,
)
#: Only while the text does not compile.
SYNTAX: tuple[Repair, ...] = (
    text_repairs.remove_stray_fence,
    text_repairs.dedent,
    text_repairs.expand_tabs,
    text_repairs.remove_invisible,
    text_repairs.smart_quotes,
    brace_repair,
)
#: Around code without a fence, or whose fence is not closed; only while the text does not compile.
PROSE: tuple[Repair, ...] = (text_repairs.leading_prose, text_repairs.trailing_prose)
#: Once the text compiles: what would only fail, or say something else than meant, when it runs.
MEANING: tuple[Repair, ...] = (literal_braces, backspace_boxed, gym_import, host_base, missing_import)

_HARMLESS = frozenset({"strip_bom", "normalise_newlines"})


class Sanitised(NamedTuple):
    r"""A program text that compiles.

    Attributes:
        source: The text; its only newline is ``\n``.
        repairs: Names of the repairs, in the order in which they were applied.
        stage: From where on the program is executable: ``raw`` (as it is), ``fence`` (after a stray fence was
            removed) or ``repaired`` (after other repairs).
    """

    source: str
    repairs: tuple[str, ...]
    stage: Stage


def sanitise(source: str, *, bare: bool = False) -> Sanitised:
    """Repair a program's text as far as needed.

    Args:
        source: The text, without its fence.
        bare: Whether prose may stand around the code.

    Raises:
        ReplyError: The text does not compile, whatever is repaired (check ``syntax``).
    """
    names: list[str] = []
    try:
        for repair in FIRST:
            source = _apply(repair, source, names)
        if (fault := fault_of(source)) is not None:
            source = _until_it_compiles(source, fault, PROSE[:1] + SYNTAX + PROSE[1:] if bare else SYNTAX, names)
        for repair in MEANING:
            changed: list[str] = []
            repaired = _apply(repair, source, changed)
            if changed and fault_of(repaired) is None:
                source = repaired
                names += [name for name in changed if name not in names]
    except RecursionError as error:
        raise ReplyError("The program is nested too deeply to be read.", check="syntax") from error
    return Sanitised(source, tuple(names), stage_of(names))


def name_of(repair: Repair) -> str:
    """Return the name under which a repair is recorded."""
    return str(getattr(repair, "recorded_as", repair.__name__))


def _apply(repair: Repair, source: str, names: list[str]) -> str:
    """Apply one repair; record its name if it changed the text."""
    repaired = repair(source)
    if repaired is None or repaired == source:
        return source
    names.append(name_of(repair))
    return repaired


def _until_it_compiles(source: str, fault: Fault, repairs: Sequence[Repair], names: list[str]) -> str:
    """Apply repairs until the text compiles, then leave out those that were not needed."""
    used: list[Repair] = []
    text = source
    for repair in repairs:
        repaired = repair(text)
        if repaired is None or repaired == text:
            continue
        used.append(repair)
        text = repaired
        if fault_of(text) is None:
            break
    else:
        raise ReplyError(_explain(source, text, fault), check="syntax")
    for repair in list(used):
        fewer = [item for item in used if item is not repair]
        shorter = _chain(source, fewer)
        if fewer and fault_of(shorter) is None:
            used, text = fewer, shorter
    names += [name_of(repair) for repair in used]
    return text


def _chain(source: str, repairs: Sequence[Repair]) -> str:
    for repair in repairs:
        source = repair(source) or source
    return source


def stage_of(names: Sequence[str]) -> Stage:
    """Return from where on a program with these repairs is executable."""
    real = [name for name in names if name not in _HARMLESS]
    return "raw" if not real else "fence" if set(real) <= {"remove_stray_fence", "remove_language_tag"} else "repaired"


def _explain(source: str, repaired: str, fault: Fault) -> str:
    """Say why a text does not compile; name the Python version when only that is missing."""
    line = source.split("\n")[fault.line - 1].strip() if 0 < fault.line <= source.count("\n") + 1 else ""
    where = f" in: {line[:120]}" if line else ""
    if needs_312(source) or needs_312(repaired):
        return (
            f"The program's f-strings need Python 3.12 or later ({fault}{where}): they reuse their own quotation "
            "mark, or hold a backslash or a comment inside braces. Write them so that Python 3.11 reads them."
        )
    return f"The program does not compile: {fault}{where}. No repair helped."
