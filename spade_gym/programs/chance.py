"""Whether a program may draw from the global generators of ``random``.

Each instance has its own state of them, and switching it in and out costs about as much as a small step. Most
programs use only ``random.Random(seed)`` and need no switching. The answer errs on the side of switching.
"""

from __future__ import annotations

import ast

#: Names through which a program could reach the module without naming it.
_ROUNDABOUT = {
    "__import__", "importlib", "sys", "globals", "vars", "eval", "exec", "getattr", "builtins", "gc", "inspect",
    "statistics", "tempfile", "numpy", "sympy", "math_verify", "gymnasium", "gym", "gem", "secrets", "uuid",
}  # fmt: skip
_OWN_STATE = {"Random", "SystemRandom"}


def may_draw_globally(source: str) -> bool:
    """Whether the source may call a function of ``random`` that uses the module's global generator."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True
    aliases: set[str] = set()
    attributes: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in _ROUNDABOUT or alias.name.split(".")[0] in _ROUNDABOUT:
                    return True
                if alias.name == "random":
                    aliases.add(alias.asname or alias.name)
        elif isinstance(node, ast.ImportFrom):
            module = (node.module or "").split(".")[0]
            if module in _ROUNDABOUT or (module == "random" and any(a.name not in _OWN_STATE for a in node.names)):
                return True
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in _OWN_STATE:
            attributes.add(id(node.value))
    return any(
        isinstance(node, ast.Name) and (node.id in _ROUNDABOUT or (node.id in aliases and id(node) not in attributes))
        for node in ast.walk(tree)
    )
