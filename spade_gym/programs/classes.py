"""What do the classes of a module define, inherit and use, as far as its text tells?"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from spade_gym.errors import ReplyError
from spade_gym.programs.names import HOST_NAMES, bound_names

#: Classes of one module that are looked at.
MAX_CLASSES = 200

Base = Literal["plain", "gymnasium", "gem", "tool_use"]

_GYM_MODULES = ("gymnasium", "gym", "gymnasium.core", "gym.core")
_GEM_MODULES = ("gem", "gem.core", "gem.env", "gem.envs", "gem.envs.base", "gem.base")
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class ClassView:
    """One class as an environment candidate.

    Attributes:
        node: Its definition.
        methods: What it defines or inherits from classes of the module, by name; a stub (``pass``, ``...``,
            ``raise NotImplementedError``) counts as missing.
        base: The known base class outside the module that it descends from.
        ancestors: The classes of the module that it descends from.
        uses: The names that its body calls: helper classes among them.
        required_arguments: Constructor arguments without a default.
        lacks: Why it is no environment; ``""`` when it is one.
    """

    node: ast.ClassDef
    methods: Mapping[str, ast.AST] = field(default_factory=dict)
    base: Base = "plain"
    ancestors: tuple[str, ...] = ()
    uses: frozenset[str] = frozenset()
    required_arguments: tuple[str, ...] = ()
    lacks: str = ""

    @property
    def name(self) -> str:
        """The name of the class."""
        return self.node.name


def module_classes(tree: ast.Module) -> dict[str, ClassView]:
    """Return the classes of a module by name, those under ``if`` and ``try`` included, in order.

    A class under ``if __name__ == "__main__"`` is none of the module's.

    Raises:
        ReplyError: There are more than 200 classes (check ``contract``).
    """
    nodes = {node.name: node for node in _statements(tree.body) if isinstance(node, ast.ClassDef)}
    if len(nodes) > MAX_CLASSES:
        raise ReplyError(f"The program defines {len(nodes)} classes; at most {MAX_CLASSES} are read.", check="contract")
    aliases = _aliases(tree)
    known = bound_names(tree) | nodes.keys()
    return {name: _view(node, nodes, aliases, known) for name, node in nodes.items()}


def module_constants(tree: ast.Module) -> dict[str, int]:
    """Return the integer constants assigned at module level."""
    found: dict[str, int] = {}
    for node in _statements(tree.body):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, int):
            found.update({target.id: node.value.value for target in node.targets if isinstance(target, ast.Name)})
    return found


def is_main_guard(node: ast.AST) -> bool:
    """Whether a statement is ``if __name__ == "__main__":``."""
    return isinstance(node, ast.If) and any(
        isinstance(item, ast.Name) and item.id == "__name__" for item in ast.walk(node.test)
    )


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield module-level statements, those inside ``if``, ``try`` and ``with`` included."""
    for node in body:
        yield node
        if is_main_guard(node):
            continue
        for key in ("body", "orelse", "finalbody"):
            if isinstance(node, ast.If | ast.Try | ast.With):
                yield from _statements(getattr(node, key, []))
        if isinstance(node, ast.Try):
            for handler in node.handlers:
                yield from _statements(handler.body)


def _view(
    node: ast.ClassDef, nodes: Mapping[str, ast.ClassDef], aliases: Mapping[str, str], known: Collection[str]
) -> ClassView:
    """Collect what a class defines, inherits and uses, and why it is no environment."""
    lineage = _lineage(node, nodes)
    outside = [
        _qualified(base, aliases) for item in lineage for base in item.bases if not _is_local(_plain(base), nodes)
    ]
    if any("ABCMeta" in ast.dump(keyword.value) for item in lineage for keyword in item.keywords):
        outside.append("abc.abstract")
    methods: dict[str, ast.AST] = {}
    abstract: set[str] = set()
    for item in reversed(lineage):
        for name, definition in _definitions(item):
            (abstract.add if _is_stub(definition) or _is_abstract(definition) else abstract.discard)(name)
            methods[name] = definition
    methods = {name: definition for name, definition in methods.items() if name not in abstract}
    unknown = _unknown_bases(lineage, known)
    base = _base(outside)
    calls = (item.func for item in ast.walk(node) if isinstance(item, ast.Call))
    return ClassView(
        node,
        methods,
        base,
        tuple(item.name for item in lineage[1:]),
        frozenset(function.id for function in calls if isinstance(function, ast.Name)),
        _required(methods.get("__init__")),
        _lacks(methods, abstract, base, outside, unknown),
    )


def _lacks(
    methods: Mapping[str, ast.AST], abstract: set[str], base: Base, outside: list[str], unknown: list[str]
) -> str:
    """Say why a class is no environment, or ``""``."""
    if "typing.Protocol" in outside:
        return "is a Protocol"
    if unknown:
        return f"extends {unknown[0]}, which is defined nowhere"
    needed = () if base == "tool_use" else ("reset", "step")
    stubs = [name for name in ("reset", "step") if name in abstract]
    if stubs:
        return f"leaves {' and '.join(stubs)} unwritten"
    missing = [name for name in needed if name not in methods]
    if missing:
        return f"has no {' and no '.join(missing)}"
    if base == "tool_use" and "step" not in methods and not any(name.startswith("tool_") for name in methods):
        return "has no tool_… method"
    if "abc.abstract" in outside and abstract:
        return f"is abstract ({', '.join(sorted(abstract))})"
    coroutines = [name for name in ("reset", "step") if isinstance(methods.get(name), ast.AsyncFunctionDef)]
    return f"has an async {coroutines[0]}, which cannot be played" if coroutines else ""


def _lineage(node: ast.ClassDef, nodes: Mapping[str, ast.ClassDef]) -> list[ast.ClassDef]:
    """Return a class and the classes of the module that it descends from, nearest first."""
    found: list[ast.ClassDef] = []
    waiting = [node]
    while waiting:
        item = waiting.pop(0)
        if item in found:
            continue
        found.append(item)
        bases = (base.id for base in map(_plain, item.bases) if isinstance(base, ast.Name))
        waiting.extend(nodes[name] for name in bases if name in nodes)
    return found


def _is_local(base: ast.expr, nodes: Mapping[str, ast.ClassDef]) -> bool:
    return isinstance(base, ast.Name) and base.id in nodes


def _plain(base: ast.expr) -> ast.expr:
    """Return a base class without its type arguments."""
    while isinstance(base, ast.Subscript):
        base = base.value
    return base


def _definitions(node: ast.ClassDef) -> Iterator[tuple[str, ast.AST]]:
    """Yield the methods of a class body by name, ``step = other`` included."""
    for item in node.body:
        if isinstance(item, _Function):
            yield item.name, item
        elif isinstance(item, ast.Assign):
            for target in item.targets:
                if isinstance(target, ast.Name):
                    yield target.id, item


def _is_abstract(definition: ast.AST) -> bool:
    decorators = definition.decorator_list if isinstance(definition, _Function) else []
    names = (item.attr if isinstance(item, ast.Attribute) else getattr(item, "id", "") for item in decorators)
    return "abstractmethod" in names


def _is_stub(definition: ast.AST) -> bool:
    """Whether a method holds nothing but a docstring, ``pass``, ``...`` or ``raise NotImplementedError``."""
    if not isinstance(definition, _Function) or definition.name not in ("reset", "step"):
        return False
    for item in definition.body:
        if isinstance(item, ast.Pass) or (isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant)):
            continue
        if isinstance(item, ast.Raise) and item.exc is not None and "NotImplementedError" in ast.dump(item.exc):
            continue
        return False
    return True


def _required(constructor: ast.AST | None) -> tuple[str, ...]:
    """Return the constructor's arguments without a default, ``self`` left out."""
    if not isinstance(constructor, ast.FunctionDef):
        return ()
    arguments = constructor.args
    named = arguments.posonlyargs + arguments.args
    required = named[1 : len(named) - len(arguments.defaults)]
    keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return tuple(item.arg for item in required) + tuple(item.arg for item, value in keywords if value is None)


def _aliases(tree: ast.Module) -> dict[str, str]:
    """Return what each imported name stands for, with dots: ``{"gym": "gymnasium", "Env": "gem.core.Env"}``."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module or ''}.{alias.name}"
    return found


def _qualified(base: ast.expr, aliases: Mapping[str, str]) -> str:
    """Return the dotted name of a base class with import aliases resolved, or ``""``."""
    parts: list[str] = []
    base = _plain(base)
    while isinstance(base, ast.Attribute):
        parts.append(base.attr)
        base = base.value
    if not isinstance(base, ast.Name):
        return ""
    name = ".".join([aliases.get(base.id, base.id), *reversed(parts)])
    return {"abc.ABC": "abc.abstract", "ABC": "abc.abstract", "Protocol": "typing.Protocol"}.get(name, name)


def _base(outside: list[str]) -> Base:
    """Return which known base class is among the dotted names."""
    for name in outside:
        module, _, last = name.rpartition(".")
        if last in HOST_NAMES:
            return "tool_use"
        if last in ("Env", "Wrapper") and module in _GYM_MODULES:
            return "gymnasium"
        if last in ("Env", "GemEnv", "BaseEnv") and module in _GEM_MODULES:
            return "gem"
    return "plain"


def _unknown_bases(lineage: list[ast.ClassDef], known: Collection[str]) -> list[str]:
    """Return the base classes that nothing in the module defines or imports."""
    bases = [_plain(base) for item in lineage for base in item.bases]
    roots = (_root(base) for base in bases)
    return [name for name in roots if name and name not in known]


def _root(base: ast.expr) -> str:
    while isinstance(base, ast.Attribute):
        base = base.value
    return base.id if isinstance(base, ast.Name) else ""
