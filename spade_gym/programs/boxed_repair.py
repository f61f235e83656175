r"""Where does ``"\boxed"`` stand in a literal that is not raw, and so mean a backspace and ``oxed``?"""

from __future__ import annotations

import ast
import re

from spade_gym.programs.literals import Literal, lex
from spade_gym.programs.syntax import parse

_ODD_BACKSLASH = re.compile(r"(?<!\\)((?:\\\\)*+)\\boxed")
_PATTERN_FUNCTIONS = {"search", "match", "fullmatch", "findall", "finditer", "compile", "sub", "subn", "split"}


def backspace_boxed(source: str) -> str | None:
    r"""Turn ``"\boxed"`` into ``"\\boxed"``, and in the pattern of a ``re`` function into ``"\\\\boxed"``.

    Docstrings are left alone: nobody reads them.
    """
    literals = [item for item in lex(source).literals if _is_affected(source, item)]
    if not literals:
        return None
    tree = parse(source)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _takes_pattern(node)]
    patterns = _starts(source, [call.args[0] for call in calls])
    docstrings = _starts(source, [item.value for item in ast.walk(tree) if isinstance(item, ast.Expr)])
    parts: list[str] = []
    position = 0
    for literal in literals:
        if literal.start in docstrings:
            continue
        slashes = "\\\\\\\\" if literal.start in patterns else "\\\\"
        body = source[literal.start : literal.end]
        fixed = _ODD_BACKSLASH.sub(lambda match, slashes=slashes: f"{match[1]}{slashes}boxed", body)  # type: ignore[misc]
        parts += [source[position : literal.start], fixed]
        position = literal.end
    result = "".join([*parts, source[position:]])
    return result if result != source else None


def _is_affected(source: str, literal: Literal) -> bool:
    if set(literal.prefix) & {"r", "b"}:
        return False
    return _ODD_BACKSLASH.search(source, literal.body_start, literal.body_end) is not None


def _takes_pattern(node: ast.Call) -> bool:
    """Whether a call is one of the ``re`` module's, with the pattern as its first argument."""
    if not node.args or not isinstance(node.func, ast.Attribute):
        return False
    owner = node.func.value
    return node.func.attr in _PATTERN_FUNCTIONS and isinstance(owner, ast.Name) and owner.id in ("re", "regex")


def _starts(source: str, nodes: list[ast.expr]) -> set[int]:
    """Return the character indices at which string nodes start."""
    lines = source.split("\n")
    offsets = [0]
    for line in lines:
        offsets.append(offsets[-1] + len(line) + 1)
    found: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.Constant | ast.JoinedStr):
            before = lines[node.lineno - 1].encode()[: node.col_offset].decode(errors="replace")
            found.add(offsets[node.lineno - 1] + len(before))
    return found
