"""What a program may change beyond its own module: what a save point inside its worker could not bring back.

A save point copies the program's instance, its module and its classes. It is right only for programs whose state can
be nowhere else, so whatever is not known to be harmless counts as reaching out; such programs are replayed instead.
"""

from __future__ import annotations

import ast
import sys
import types
from collections.abc import Iterable
from typing import Any

#: Modules whose use leaves nothing behind but in their own attributes, which ``Surroundings`` watches. Chance and time
#: belong to the universe, which save points hold.
_HARMLESS = frozenset({
    "__future__", "abc", "base64", "bisect", "cmath", "collections", "collections.abc", "copy", "dataclasses",
    "datetime", "decimal", "difflib", "enum", "fractions", "functools", "gem", "gem.core", "hashlib", "heapq",
    "itertools", "json", "keyword", "math", "numbers", "numpy", "numpy.linalg", "numpy.random", "operator", "pprint",
    "random", "re", "secrets", "statistics", "string", "textwrap", "time", "types", "typing", "unicodedata", "uuid",
})  # fmt: skip

#: Names whose use could change something else, or run code that nobody has seen.
_REACHING = frozenset({
    "__import__", "__builtins__", "__loader__", "__spec__", "__del__", "__subclasses__", "__subclasshook__",
    "__globals__", "__closure__", "__defaults__", "__kwdefaults__", "__code__", "__mro__", "__bases__", "__base__",
    "BasicContext", "DefaultContext", "ExtendedContext", "compile", "eval", "exec", "getcontext", "setcontext",
    "localcontext", "id", "import_module", "register", "singledispatch", "singledispatchmethod", "set_printoptions",
    "printoptions", "seterr", "seterrcall", "setbufsize", "errstate", "set_string_function", "set_bit_generator",
    "_reseed",
})  # fmt: skip


def reaches_out(source: str) -> bool:
    """Whether a program's source shows that it may keep state outside of its module, its classes and its instance."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True
    return any(_reaches(node) for node in nodes)


def _reaches(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name not in _HARMLESS for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return node.module not in _HARMLESS or any(alias.name in _REACHING for alias in node.names)
    if isinstance(node, ast.Name):
        return node.id in _REACHING
    if isinstance(node, ast.Attribute):
        return node.attr in _REACHING
    return isinstance(node, ast.FunctionDef) and node.name in _REACHING


class Surroundings:
    """The harmless modules as they were before any program ran.

    Attributes:
        modules: By address.
    """

    def __init__(self) -> None:
        found = [module for name in _HARMLESS if isinstance(module := sys.modules.get(name), types.ModuleType)]
        self.modules = {id(module): module for module in found}
        self._before = [(vars(module), dict(vars(module))) for module in found]
        # What the modules hold of others' code: types and functions that a program may have imported.
        self._parts = {
            id(value): value
            for _, values in self._before
            for value in values.values()
            if isinstance(value, type | types.FunctionType | types.BuiltinFunctionType)
        }

    def are_untouched(self, but: Iterable[str]) -> bool:
        """Whether no module had an attribute set since; ``but`` are the names that universes switch in ``random``."""
        for now, before in self._before:
            if now.get("__name__") == "random":
                exempt = dict.fromkeys(but)
                if now.keys() != before.keys() or any(
                    now[key] is not value for key, value in before.items() if key not in exempt
                ):
                    return False
            elif now != before:
                return False
        return True

    def hold(self, value: Any) -> bool:
        """Whether a type or function is one of theirs."""
        return self._parts.get(id(value)) is value
