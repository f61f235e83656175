"""Does a text compile as a Python module, and if not, where and why?

Nothing here runs the program: a text is only compiled. Whatever the text, the answer is a value or a
:class:`~spade_gym.errors.ReplyError`; nesting that exhausts the compiler is a fault of the text.
"""

from __future__ import annotations

import ast
import warnings
from functools import lru_cache
from typing import NamedTuple

from spade_gym.errors import ReplyError

#: Longest reply or program text, in characters. Far above what 32,768 tokens hold; bounds the time of every check.
MAX_CHARS = 300_000

_TOO_DEEP = "the code is nested too deeply to be compiled"


class Fault(NamedTuple):
    """Why a text does not compile.

    Attributes:
        kind: ``SyntaxError``, ``IndentationError``, ``TabError``, ``ValueError`` or ``RecursionError``.
        message: The compiler's words.
        line: 1-based line of the text; 0 when unknown.
    """

    kind: str
    message: str
    line: int

    def __str__(self) -> str:
        """Return kind, message and line in one phrase."""
        return f"{self.kind}: {self.message}" + (f" (line {self.line} of the code)" if self.line else "")


@lru_cache(maxsize=16)
def fault_of(source: str, mode: str = "exec") -> Fault | None:
    """Return why the text does not compile, or ``None`` when it does.

    Args:
        source: Any text.
        mode: ``exec`` for a module, ``eval`` for an expression.
    """
    if len(source) > MAX_CHARS:
        return Fault("ValueError", f"the text has {len(source)} characters; at most {MAX_CHARS} are read", 0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, "<program>", mode, dont_inherit=True)
    except SyntaxError as error:
        return Fault(type(error).__name__, error.msg or "invalid syntax", error.lineno or 0)
    except UnicodeError:
        return Fault("ValueError", "the text holds lone surrogates, which are no characters", 0)
    except (ValueError, OverflowError) as error:  # NUL characters
        return Fault("ValueError", str(error), 0)
    except (RecursionError, MemoryError):
        return Fault("RecursionError", _TOO_DEEP, 0)
    return None


def parse(source: str) -> ast.Module:
    """Return the syntax tree of a module.

    Raises:
        ReplyError: The text does not compile (check ``syntax``).
    """
    fault = fault_of(source)
    if fault is not None:
        raise ReplyError(f"The program does not compile: {fault}.", check="syntax")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(source)
        except (RecursionError, MemoryError) as error:
            raise ReplyError(f"The program does not compile: {_TOO_DEEP}.", check="syntax") from error


def expression(source: str) -> ast.expr | None:
    """Return the tree of an expression, or ``None`` when the text is none."""
    if fault_of(source, "eval") is not None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(source, mode="eval").body
        except (RecursionError, MemoryError):
            return None
