"""Save points of an instance inside its worker: copies of all the state that its program can reach.

A copy is right only when it is complete, so the rule is turned round: a state is copied only where every object in it
is of a kind known to be safe, and known to have nothing that copying would miss. ``Uncopyable`` is raised at anything
else - a closure, a mutable default argument, a generator, a class made in a function, an attribute set on a function
or on an imported module - and the caller replays the actions instead, which is always right.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from spade_gym.sandbox.copies import MODULE_NAME, Copier, Uncopyable
from spade_gym.sandbox.reach import Surroundings

__all__ = ["MODULE_NAME", "State", "Uncopyable", "capture", "reinstate"]

_MODULE_FURNITURE = frozenset({
    "__name__", "__doc__", "__package__", "__loader__", "__spec__", "__builtins__", "__annotations__", "__file__",
    "__cached__", "__annotate__", "__annotate_func__", "__conditional_annotations__", "__warningregistry__",
})  # fmt: skip
_CLASS_FURNITURE = frozenset({
    "__module__", "__qualname__", "__name__", "__doc__", "__dict__", "__weakref__", "__annotations__", "__slots__",
    "__match_args__", "__dataclass_fields__", "__dataclass_params__", "__abstractmethods__", "_abc_impl",
    "__orig_bases__", "__parameters__", "__static_attributes__", "__firstlineno__", "__classcell__", "__annotate__",
    "__annotate_func__", "__annotations_cache__", "_fields", "_field_defaults", "_ToolUseBaseEnv__tool_signatures",
})  # fmt: skip


class State(NamedTuple):
    """A copy of what a program's instance can change.

    Attributes:
        instance: The environment object.
        module: What its module's names stand for.
        classes: What its classes' names stand for, by class name and attribute.
    """

    instance: Any
    module: dict[str, Any]
    classes: dict[str, dict[str, Any]]


def capture(
    instance: Any, module: dict[str, Any], shared: dict[int, Any], around: Surroundings, *, moves: bool = True
) -> State:
    """Copy an instance with its module's and classes' variables.

    Args:
        instance: The environment object.
        module: Namespace of its module.
        shared: What is not to be copied, by address: the universe's generators, which save points hold themselves.
        around: The modules that it may use.
        moves: Whether it is to be reinstated later; else it is only a reading, and good for the moment.

    Raises:
        Uncopyable: Some of it is not known to be copied faithfully.
    """
    return _copy(_present(instance, module), module, shared, around, moves)


def reinstate(state: State, module: dict[str, Any], shared: dict[int, Any], around: Surroundings) -> Any:
    """Write a copy of a state back into its module; return the copied instance.

    Raises:
        Uncopyable: Something changed since that cannot be brought back; nothing was written.
    """
    present = _present(None, module)
    fresh = _copy(state, module, shared, around, True)
    classes = dict(classes_of(module))
    if fresh.classes.keys() != classes.keys():
        raise Uncopyable("a class came or went")
    for name in present.module.keys() - fresh.module.keys():
        del module[name]
    module.update(fresh.module)
    for name, kind in classes.items():
        values = fresh.classes[name]
        for key in present.classes[name].keys() - values.keys():
            delattr(kind, key)
        for key, value in values.items():
            if present.classes[name].get(key) is not value:
                setattr(kind, key, value)
    return fresh.instance


def _copy(state: State, module: dict[str, Any], shared: dict[int, Any], around: Surroundings, moves: bool) -> State:
    copier = Copier([kind for _, kind in classes_of(module)], shared, around, moves=moves)
    try:
        return State(*(copier.copy(part) for part in state))
    except RecursionError as error:
        raise Uncopyable("the state is nested too deep") from error


def _present(instance: Any, module: dict[str, Any]) -> State:
    classes = {name: _variables(vars(kind), _CLASS_FURNITURE, kind) for name, kind in classes_of(module)}
    return State(instance, _variables(module, _MODULE_FURNITURE, None), classes)


def classes_of(module: Mapping[str, Any], prefix: str = "", seen: set[int] | None = None) -> Iterator[tuple[str, type]]:
    """The program's classes, those inside classes too, each once."""
    seen = set() if seen is None else seen
    for name, kind in list(module.items()):
        if isinstance(kind, type) and kind.__module__ == MODULE_NAME and id(kind) not in seen:
            seen.add(id(kind))
            yield prefix + name, kind
            yield from classes_of(vars(kind), f"{prefix}{name}.", seen)


def _variables(namespace: Mapping[str, Any], furniture: frozenset[str], kind: type | None) -> dict[str, Any]:
    """What a program may have changed in a module or class: every name that it gave itself, functions included."""
    found = {key: value for key, value in namespace.items() if key not in furniture}
    if kind is not None and issubclass(kind, enum.Enum):  # its own tables, which do not change
        found = {key: value for key, value in found.items() if not key.startswith("_") or key in _METHODS}
    return found


_METHODS = frozenset({"__init__", "__str__", "__call__", "__format__"})
