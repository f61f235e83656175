r"""Which braces of an f-string were meant as text?

``f"Answer with \\boxed{}"`` does not compile, ``f"\\boxed{north}"`` raises a NameError, and
``f"\\frac{1}{2}"`` prints ``\frac12``: in each the braces were meant to be read by the player and must be
doubled. Braces around anything that can be evaluated are left alone.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from spade_gym.programs.boxed import closing_braces
from spade_gym.programs.literals import Literal, lex, line_of
from spade_gym.programs.names import bound_anywhere, unbound_names
from spade_gym.programs.newer_syntax import needs_312
from spade_gym.programs.syntax import expression, fault_of, parse

_LATEX = re.compile(r"\\[A-Za-z]+\s?\Z")
_BRACE = re.compile(r"[{}]")
#: Braces inside braces inside … of one f-string; deeper ones are not repaired.
_MAX_DEPTH = 12
#: Braces of one program that are looked at; more are left alone, which bounds the time.
_MAX_BRACES = 5_000


def brace_repair(source: str) -> str | None:
    """Double the braces of f-strings that do not compile, where what they hold is no expression.

    An f-string that only an older Python cannot read is no case for it.
    """
    if needs_312(source):
        return None

    def mend(literal: Literal, text: str) -> str:
        if fault_of(f"({text})", "eval") is None:
            return text
        mended = _mend(literal, text, lambda _node: False)
        return mended if fault_of(f"({mended})", "eval") is None else text

    return _each_fstring(source, mend)


def literal_braces(source: str) -> str | None:
    r"""Double the braces after a LaTeX command that hold a constant, or a name that exists nowhere.

    Works on a text that compiles; ``f"\\boxed{self.answer}"`` stays as it is.
    """
    if "\\" not in source:
        return None
    tree = parse(source)
    bound = bound_anywhere(tree)
    unbound = {(node.id, node.lineno) for node in unbound_names(tree)}
    nowhere = {name for name, _line in unbound if name not in bound}

    def mend(literal: Literal, text: str) -> str:
        lines = range(line_of(source, literal.start), line_of(source, literal.end) + 1)

        def is_text(node: ast.expr) -> bool:
            names = {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}
            if any(isinstance(item, ast.Call | ast.Subscript) for item in ast.walk(node)):
                return False
            return all(name in nowhere or any((name, line) in unbound for line in lines) for name in names)

        return _mend(literal, text, is_text)

    return _each_fstring(source, mend)


literal_braces.recorded_as = "brace_repair"  # type: ignore[attr-defined]


def _each_fstring(source: str, mend: Callable[[Literal, str], str]) -> str | None:
    """Replace every f-string by what ``mend`` makes of it."""
    parts: list[str] = []
    position = 0
    budget = _MAX_BRACES
    for literal in lex(source).literals:
        braces = source.count("{", literal.start, literal.end) if "f" in literal.prefix else 0
        budget -= braces
        if braces and budget >= 0:
            parts += [source[position : literal.start], mend(literal, source[literal.start : literal.end])]
            position = literal.end
    result = "".join([*parts, source[position:]])
    return result if result != source else None


def _mend(literal: Literal, text: str, is_text: Callable[[ast.expr], bool]) -> str:
    """Double the braces of one f-string that were meant as text.

    Args:
        literal: The f-string.
        text: All of it, with prefix and quotes.
        is_text: Whether an expression after a LaTeX command was meant as text.
    """
    opening = literal.prefix + literal.quote
    head, body = text[: len(opening)], text[len(opening) : len(text) - len(literal.quote)]
    if _depth(body) > _MAX_DEPTH:
        return text
    return head + _Mender(literal, is_text).mend(body, latex=False) + literal.quote


class _Mender:
    """Rewrites the body of one f-string from left to right."""

    def __init__(self, literal: Literal, is_text: Callable[[ast.expr], bool]) -> None:
        self._literal = literal
        self._is_text = is_text

    def mend(self, body: str, *, latex: bool) -> str:
        """Return the body with braces doubled; ``latex`` says that a LaTeX argument has just ended."""
        pairs = closing_braces(body)
        out: list[str] = []
        position = 0
        while position < len(body):
            if body.startswith(("{{", "}}"), position):
                out.append(body[position : position + 2])
                position += 2
                latex = out[-1] == "}}" and latex
            elif body[position] == "{":
                text, position, latex = self._group(body, position, pairs.get(position), latex)
                out.append(text)
            else:
                brace = _BRACE.search(body, position)
                following = brace.start() if brace else len(body)
                chunk = body[position:following]
                out.append(chunk or "}}")
                position = max(following, position + 1)
                latex = _LATEX.search(chunk) is not None and not self._is_named_character(chunk)
        return "".join(out)

    def _group(self, body: str, start: int, end: int | None, latex: bool) -> tuple[str, int, bool]:
        """Treat the group that opens at ``start``; return its text, where to go on, and whether it was LaTeX."""
        before = body[max(0, start - 2) : start]
        if end is None:  # without LaTeX before it, it may be the start of an f-string for Python 3.12
            return ("{{" if latex else "{"), start + 1, False
        if self._is_named_character(before):
            return body[start : end + 1], end + 1, False
        content = body[start + 1 : end]
        node = self._expression(content)
        if node is None and content.strip() and expression(f"({content.strip()})") is not None:
            return body[start : end + 1], end + 1, False
        if node is None:
            return "{{" + self.mend(content, latex=False) + "}}", end + 1, latex
        half_doubled = latex and body.startswith("}", end + 1) and not body.startswith("}}", end + 1)
        if half_doubled:
            return "{{" + content + "}}", end + 2, latex
        if latex and self._is_text(node):
            return "{{" + content + "}}", end + 1, latex
        return body[start : end + 1], end + 1, False

    def _is_named_character(self, before: str) -> bool:
        r"""Whether ``\N`` stands before the brace, as in ``\N{DASH}``."""
        return "r" not in self._literal.prefix and before.endswith("\\N") and not before.endswith("\\\\N")

    def _expression(self, content: str) -> ast.expr | None:
        """Return the expression that a replacement field evaluates, or ``None`` when it is none."""
        literal = self._literal
        field = expression(f"({literal.prefix}{literal.quote}{{{content}}}{literal.quote})")
        if not isinstance(field, ast.JoinedStr) or len(field.values) != 1:
            return None
        value = field.values[0]
        return value.value if isinstance(value, ast.FormattedValue) else None


def _depth(body: str) -> int:
    """Return how deeply braces stand inside braces."""
    depth = deepest = 0
    for match in re.finditer(r"[{}]", body):
        depth = depth + 1 if match[0] == "{" else max(0, depth - 1)
        deepest = max(deepest, depth)
    return deepest
