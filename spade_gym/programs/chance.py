"""Whether a program may draw from the global generators of ``random``.

Each instance has its own state of them, and switching it in and out costs about as much as a small step. Most
programs use only ``random.Random(seed)`` and need no switching. The answer errs on the side of switching.
"""

from __future__ import annotations

import ast

#: Modules through which nobody reaches the module ``random`` by accident.
_HARMLESS = frozenset({
    "__future__", "abc", "base64", "bisect", "cmath", "collections", "copy", "dataclasses", "datetime", "decimal",
    "enum", "fractions", "functools", "hashlib", "heapq", "itertools", "json", "math", "numbers", "operator", "pprint",
    "random", "re", "string", "textwrap", "time", "typing", "unicodedata",
})  # fmt: skip
#: Names, also of attributes, through which a program could reach it without naming it.
_ROUNDABOUT = frozenset({
    "__import__", "__builtins__", "__dict__", "__globals__", "__loader__", "__spec__", "__subclasses__", "_inst",
    "builtins", "compile", "eval", "exec", "gc", "getattr", "globals", "importlib", "inspect", "locals", "modules",
    "sys", "vars",
})  # fmt: skip
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
                if alias.name.split(".")[0] not in _HARMLESS:
                    return True
                if alias.name == "random":
                    aliases.add(alias.asname or alias.name)
        elif isinstance(node, ast.ImportFrom):
            module = (node.module or "").split(".")[0]
            if module not in _HARMLESS or (module == "random" and any(a.name not in _OWN_STATE for a in node.names)):
                return True
            if any(alias.name in _ROUNDABOUT or alias.name == "random" for alias in node.names):
                return True
        elif isinstance(node, ast.Attribute):
            if node.attr in _ROUNDABOUT:
                return True
            if isinstance(node.value, ast.Name) and node.attr in _OWN_STATE:
                attributes.add(id(node.value))
    return any(
        isinstance(node, ast.Name) and (node.id in _ROUNDABOUT or (node.id in aliases and id(node) not in attributes))
        for node in ast.walk(tree)
    )
