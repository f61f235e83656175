"""Which names of a module are used where nothing binds them?"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

#: Names that the sandbox provides to every program.
HOST_NAMES = ("ToolUseBaseEnv",)

_ALWAYS = frozenset(dir(builtins)) | {
    *("__annotations__", "__builtins__", "__class__", "__doc__", "__file__", "__loader__", "__module__", "__name__"),
    *("__package__", "__qualname__", "__spec__", *HOST_NAMES),
}
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


class _Scope(NamedTuple):
    """The names bound in one scope, and whether it is a class body (invisible to the functions inside)."""

    names: frozenset[str]
    is_class: bool


def bound_names(tree: ast.Module) -> set[str]:
    """Return every name that is bound at module level, builtins and host names included."""
    declared = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    return set(_ALWAYS) | _bindings(tree.body) | declared


def bound_anywhere(tree: ast.Module) -> set[str]:
    """Return every name that some scope of the module binds, builtins and host names left out."""
    found: set[str] = set()
    for node in ast.walk(tree):
        found |= _binding(node)
        if isinstance(node, ast.arg):
            found.add(node.arg)
    return found


def unbound_names(tree: ast.Module) -> list[ast.Name]:
    """Return the uses of names that no scope around them binds, in order of the text.

    Order of execution is not looked at: a name bound later in its scope counts as bound. After a star import
    anything may be bound, so nothing is reported.

    Raises:
        RecursionError: The module is nested too deeply.
    """
    if any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in ast.walk(tree)):
        return []
    finder = _Finder(frozenset(bound_names(tree)), _lazy_annotations(tree))
    for statement in tree.body:
        finder.visit(statement)
    return finder.found


def _lazy_annotations(tree: ast.Module) -> bool:
    return any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body)


def _binding(node: ast.AST) -> set[str]:
    """Return the names that a single node binds in the scope in which it stands."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            return {name}
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return {node.name}
        case ast.Import():
            return {alias.asname or alias.name.split(".")[0] for alias in node.names}
        case ast.ImportFrom():
            return {alias.asname or alias.name for alias in node.names}
        case ast.ExceptHandler() | ast.MatchAs() | ast.MatchStar():
            return {node.name} if node.name else set()
        case ast.MatchMapping():
            return {node.rest} if node.rest else set()
        case ast.Nonlocal() | ast.Global():
            return set(node.names)
    return set()


def _bindings(body: Iterable[ast.AST]) -> set[str]:
    """Return the names bound by statements, without entering the scopes that they open."""
    found: set[str] = set()
    waiting = list(body)
    while waiting:
        node = waiting.pop()
        found |= _binding(node)
        if isinstance(node, _Function | ast.ClassDef):
            waiting.extend(_outside(node))
        elif isinstance(node, _Comprehension):
            walrus = (item.target.id for item in ast.walk(node) if isinstance(item, ast.NamedExpr))
            found.update(walrus)
        else:
            waiting.extend(ast.iter_child_nodes(node))
    return found


def _outside(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a definition that run in the scope around it."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield from node.decorator_list
    if isinstance(node, ast.ClassDef):
        yield from node.bases
        yield from node.keywords
    if isinstance(node, _Function):
        yield from node.args.defaults
        yield from (item for item in node.args.kw_defaults if item is not None)


def _arguments(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> list[ast.arg]:
    arguments = node.args
    extra = [item for item in (arguments.vararg, arguments.kwarg) if item is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *extra]


class _Finder(ast.NodeVisitor):
    """Walks a module with a stack of scopes and keeps the names that none of them binds."""

    def __init__(self, module: frozenset[str], lazy_annotations: bool) -> None:
        self.found: list[ast.Name] = []
        self._scopes = [_Scope(module, False)]
        self._lazy = lazy_annotations
        self._in_function = False

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load) and not any(node.id in scope.names for scope in self._scopes):
            self.found.append(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.target)
        if not self._lazy and not self._in_function:
            self.visit(node.annotation)
        if node.value is not None:
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._function(node, node.body)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._function(node, node.body)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._function(node, [node.body])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in _outside(node):
            self.visit(part)
        before = self._in_function
        self._in_function = False
        self._inside(_bindings(node.body) | _type_parameters(node), node.body, is_class=True)
        self._in_function = before

    def visit_ListComp(self, node: ast.ListComp) -> None:
        self._comprehension(node, [node.elt])

    def visit_SetComp(self, node: ast.SetComp) -> None:
        self._comprehension(node, [node.elt])

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        self._comprehension(node, [node.elt])

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self._comprehension(node, [node.key, node.value])

    def _comprehension(self, node: _Comprehension, results: list[ast.expr]) -> None:
        names = {name for item in node.generators for name in _bindings([item.target])}
        self._inside(names, [*node.generators, *results], is_class=False)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, body: Sequence[ast.AST]) -> None:
        for part in _outside(node):
            self.visit(part)
        arguments = _arguments(node)
        if not self._lazy:
            returns = getattr(node, "returns", None)
            for annotation in (*(item.annotation for item in arguments), returns):
                if annotation is not None and not _type_parameters(node):
                    self.visit(annotation)
        before, scopes = self._in_function, self._scopes
        self._in_function = True
        self._scopes = [scope for scope in scopes if not scope.is_class]
        self._inside({item.arg for item in arguments} | _bindings(body) | _type_parameters(node), body, is_class=False)
        self._in_function, self._scopes = before, scopes

    def _inside(self, names: set[str], nodes: Iterable[ast.AST], *, is_class: bool) -> None:
        self._scopes.append(_Scope(frozenset(names), is_class))
        for node in nodes:
            self.visit(node)
        self._scopes.pop()


def _type_parameters(node: ast.AST) -> set[str]:
    """Return the type parameters of ``def f[T]`` (Python 3.12 and later)."""
    return {item.name for item in getattr(node, "type_params", ())}
