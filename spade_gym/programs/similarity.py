"""How alike two programs are in structure: same skeleton under other names, numbers and texts."""

from __future__ import annotations

import ast
import functools
import warnings

_GRAM = 5


@functools.lru_cache(maxsize=1024)
def skeleton(source: str) -> frozenset[tuple[str, ...]]:
    """Return the set of 5-grams of node types, in the order of a walk through the syntax tree, top down.

    Names, constants, comments and docstrings leave no trace; ``ctx`` nodes (load, store) are left out.

    Raises:
        SyntaxError: The source does not parse.
    """
    types: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # odd escapes in a program's strings
        tree = ast.parse(source)
    _walk(tree, types)
    return frozenset(tuple(types[i : i + _GRAM]) for i in range(len(types) - _GRAM + 1))


def _walk(tree: ast.AST, types: list[str]) -> None:
    todo = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.expr_context):
            continue
        types.append(type(node).__name__)
        children = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False) is not None:
            children.remove(node.body[0])
        todo.extend(reversed(children))


def similarity(left: str, right: str) -> float:
    """Return the Jaccard similarity of two programs' skeletons, 0 (nothing in common) to 1 (same structure).

    Raises:
        SyntaxError: A source does not parse.
    """
    a, b = skeleton(left), skeleton(right)
    return len(a & b) / len(a | b) if a or b else 1.0
