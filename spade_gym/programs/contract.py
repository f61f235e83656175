"""Which class of a module is the environment, and what does its text say about it?

The choice is by contract, not by position: a class with ``reset`` and ``step``, its own or inherited, that is
not abstract and not a part of another such class. Nothing is executed; whether the class works is for the
validation to find out.
"""

from __future__ import annotations

import ast
import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from spade_gym.errors import ReplyError
from spade_gym.programs.classes import ClassView, module_classes, module_constants
from spade_gym.types import Setting

_SUFFIX = re.compile(r"(?<=.)(?:Env(?:ironment)?(?:GEM|Gem|V\d+)?|EnvGEM|_env)$")
_ENV_NAME = re.compile(r"Env(?:GEM|Gem)?$")
_TURNS = ("max_turns", "max_steps", "turn_limit", "max_attempts")


class Contract(NamedTuple):
    """What the text of a program says about its environment class.

    Attributes:
        class_name: The environment class.
        name: A CamelCase word made from it, without the suffix ``Env``.
        setting: ``tool_use`` for subclasses of ``ToolUseBaseEnv``; ``single_turn`` where one graded answer ends
            the program; else ``multi_turn``. A guess: the request that led to the program knows better.
        adapters: ``class_name`` (not named ``…Env``), ``gymnasium_env``, ``gem_env``.
        max_turns: The default of the constructor's turn limit, or ``None`` when the text does not tell.
        has_solution: Whether the class defines or inherits ``solution``.
    """

    class_name: str
    name: str
    setting: Setting
    adapters: tuple[str, ...]
    max_turns: int | None
    has_solution: bool


def read_contract(tree: ast.Module) -> Contract:
    """Choose the environment class of a module.

    Raises:
        ReplyError: No class fulfils the contract; the message names the classes found and what each lacks
            (check ``contract``).
    """
    try:
        views = module_classes(tree)
        candidates = [view for view in views.values() if not view.lacks]
        if not candidates:
            raise ReplyError(_refusal(tree, views), check="contract")
        played = {name for node in tree.body if not isinstance(node, ast.ClassDef) for name in _called(node)}
        chosen = min(candidates, key=lambda view: _preference(view, candidates, played))
        return _describe(chosen, tree)
    except RecursionError as error:
        raise ReplyError("The program is nested too deeply to be read.", check="syntax") from error


def required_imports(source: str) -> frozenset[str]:
    """Return the top-level modules that a program imports anywhere; decides which zygote it needs.

    Constant arguments of ``__import__`` and ``importlib.import_module`` count. A text that does not compile
    imports nothing.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
        elif isinstance(node, ast.Call) and node.args and _is_import_call(node.func):
            argument = node.args[0]
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                found.add(argument.value.split(".")[0])
    return frozenset(found)


def camel_name(class_name: str) -> str:
    """Return a CamelCase ASCII word for a class: ``EchoCaveEnv`` and ``echo_cave_env`` give ``EchoCave``."""
    stem = _SUFFIX.sub("", class_name.strip("_")) or class_name
    plain = unicodedata.normalize("NFKD", stem).encode("ascii", "ignore").decode()
    word = "".join(part[:1].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9]+", plain))
    word = re.sub(r"^[^A-Za-z]+", "", word)[:64]
    return word or "Program"


def _is_import_call(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in ("__import__", "import_module")


def _preference(view: ClassView, candidates: list[ClassView], played: set[str]) -> tuple[bool | int, ...]:
    """Sort key of a candidate, smallest best; position in the file decides only between equals."""
    others = [other for other in candidates if other is not view]
    extended = any(view.name in other.ancestors for other in others)
    used = any(view.name in other.uses for other in others)
    named = _ENV_NAME.search(view.name) is not None
    return (
        view.name.startswith("_"),
        extended,
        used,
        len(view.required_arguments) > 0,
        not named,
        view.base == "plain" and any(other.base != "plain" for other in others),
        view.name not in played,
        "solution" not in view.methods,
        -len(view.methods),
        -view.node.lineno,
    )


def _called(node: ast.AST) -> set[str]:
    """Return the plain names called anywhere inside a node."""
    calls = (item.func for item in ast.walk(node) if isinstance(item, ast.Call))
    return {function.id for function in calls if isinstance(function, ast.Name)}


def _describe(view: ClassView, tree: ast.Module) -> Contract:
    """Write down what the text says about the chosen class."""
    adapters = [] if _ENV_NAME.search(view.name) else ["class_name"]
    if view.base in ("gymnasium", "gem"):
        adapters.append(f"{view.base}_env")
    turns = _default_turns(view, module_constants(tree))
    setting: Setting = "multi_turn"
    if view.base == "tool_use":
        setting = "tool_use"
    elif turns == 1 or _always_ends(view.methods.get("step")):
        setting = "single_turn"
    return Contract(view.name, camel_name(view.name), setting, tuple(adapters), turns, "solution" in view.methods)


def _default_turns(view: ClassView, constants: Mapping[str, int]) -> int | None:
    """Return the constructor's default turn limit where it is written as a number or a module constant."""
    constructor = view.methods.get("__init__")
    if not isinstance(constructor, ast.FunctionDef):
        return None
    named = constructor.args.posonlyargs + constructor.args.args
    pairs: list[tuple[ast.arg, ast.expr | None]] = list(
        zip(named[len(named) - len(constructor.args.defaults) :], constructor.args.defaults, strict=True)
    )
    pairs += zip(constructor.args.kwonlyargs, constructor.args.kw_defaults, strict=True)
    defaults = {argument.arg: value for argument, value in pairs}
    for word in _TURNS:
        value = defaults.get(word)
        number: object = None
        if isinstance(value, ast.Constant):
            number = value.value
        elif isinstance(value, ast.Name):
            number = constants.get(value.id)
        if isinstance(number, int) and not isinstance(number, bool) and number >= 1:
            return number
    return None


def _always_ends(step: ast.AST | None) -> bool:
    """Whether every result of ``step`` that the text shows is terminated."""
    if not isinstance(step, ast.FunctionDef):
        return False
    results = [node.value for node in _returns(step)]
    ends = [item.elts[2] for item in results if isinstance(item, ast.Tuple) and len(item.elts) >= 4]
    if len(ends) < len(results):
        return False
    return bool(ends) and all(isinstance(end, ast.Constant) and end.value is True for end in ends)


def _returns(function: ast.FunctionDef) -> Iterator[ast.Return]:
    """Yield the return statements of a function, not those of functions inside it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Return):
            yield node
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            waiting.extend(ast.iter_child_nodes(node))


def _refusal(tree: ast.Module, views: Mapping[str, ClassView]) -> str:
    """Say why no class is an environment."""
    wanted = "a class named …Env with reset(seed=None) and step(action) is needed"
    if views:
        found = "; ".join(f"{view.name} (line {view.node.lineno}) {view.lacks}" for view in views.values())
        return f"No class fulfils the environment contract: {found}; {wanted}."
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    if functions:
        return f"The program defines no class, only the functions {', '.join(functions[:8])}; {wanted}."
    return f"The program defines no class; {wanted}."
