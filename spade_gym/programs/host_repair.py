"""How are modules and base classes that only the host provides made available to a program?"""

from __future__ import annotations

import ast
import sys

from spade_gym.programs.classes import module_classes
from spade_gym.programs.names import HOST_NAMES
from spade_gym.programs.syntax import parse

_KNOWN = sys.stdlib_module_names


def gym_import(source: str) -> str | None:
    """Import ``gymnasium`` where the abandoned package ``gym`` is imported."""
    if "gym" not in source:
        return None
    edits: dict[ast.stmt, str] = {}
    for node in ast.walk(parse(source)):
        if isinstance(node, ast.Import) and any(alias.name.split(".")[0] == "gym" for alias in node.names):
            edits[node] = "import " + ", ".join(_gymnasium(alias) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] == "gym":
            names = ", ".join(alias.name + (f" as {alias.asname}" if alias.asname else "") for alias in node.names)
            edits[node] = f"from gymnasium{(node.module or '')[3:]} import {names}"
    return _replace(source, edits)


def host_base(source: str) -> str | None:
    """Let a program use the host's ``ToolUseBaseEnv`` instead of importing or sketching its own.

    The import from any module outside the standard library is dropped, and so is a class of that name without
    ``step``; a complete one is kept.
    """
    if not any(name in source for name in HOST_NAMES):
        return None
    tree = parse(source)
    edits: dict[ast.stmt, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] not in _KNOWN:
            ours = [alias for alias in node.names if alias.name in HOST_NAMES]
            rest = [alias for alias in node.names if alias.name not in HOST_NAMES]
            if ours:
                renamed = [f"{alias.asname} = {alias.name}" for alias in ours if alias.asname not in (None, alias.name)]
                kept = ast.unparse(ast.ImportFrom(node.module, rest, node.level)) if rest else ""
                edits[node] = "; ".join(item for item in (*renamed, kept) if item) or "pass"
    for name, view in module_classes(tree).items():
        if name in HOST_NAMES and "step" not in view.methods and not view.node.bases:
            edits[view.node] = "pass"
    return _replace(source, edits)


def _gymnasium(alias: ast.alias) -> str:
    if alias.name == "gym":
        return f"gymnasium as {alias.asname or 'gym'}"
    if alias.name.startswith("gym."):
        name = "gymnasium" + alias.name[3:]
        return f"{name} as {alias.asname}" if alias.asname else f"{name}, gymnasium as gym"
    return alias.name + (f" as {alias.asname}" if alias.asname else "")


def _replace(source: str, edits: dict[ast.stmt, str]) -> str | None:
    """Replace whole statements, keeping the number of lines."""
    if not edits:
        return None
    lines = [line.encode() for line in source.split("\n")]
    for node in sorted(edits, key=lambda item: (item.lineno, item.col_offset), reverse=True):
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        if isinstance(node, ast.ClassDef) and node.decorator_list:
            first = node.decorator_list[0].lineno - 1
        head, tail = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
        lines[first : last + 1] = [head + edits[node].encode() + tail] + [b""] * (last - first)
    return b"\n".join(lines).decode()
