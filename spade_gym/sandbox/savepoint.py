"""Save points of an instance inside its worker, by deep copy of all the state that its program can reach.

A deep copy is right only when nothing of the state hides where copying does not reach: a closure (a criterion
that captured ``self``), a mutable default argument, a generator, an open iterator, a bound method of a list.
``Uncopyable`` is raised then, and the caller replays the actions instead.
"""

from __future__ import annotations

import copy
import enum
import types
import weakref
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

#: Name of a program's module.
MODULE_NAME = "spade_program"
_SCALARS = (str, int, float, complex, bool, bytes, type(None))
_FIXED = (type, types.ModuleType, *_SCALARS)
_FUNCTIONS = (types.FunctionType, property, classmethod, staticmethod)
_NO_VARIABLES = (type, types.ModuleType, *_FUNCTIONS, types.GetSetDescriptorType, types.MemberDescriptorType)


class Uncopyable(Exception):
    """The state cannot be copied faithfully."""


class State(NamedTuple):
    """A deep copy of what a program's instance can change.

    Attributes:
        instance: The environment object.
        module: Variables of its module: everything but classes, functions and imported modules.
        classes: Class attributes of the same sort, by class name and attribute.
    """

    instance: Any
    module: dict[str, Any]
    classes: dict[str, dict[str, Any]]


def capture(instance: Any, module: dict[str, Any], shared: dict[int, Any]) -> State:
    """Copy an instance with its module's and classes' variables.

    Args:
        instance: The environment object.
        module: Namespace of its module.
        shared: What is not to be copied, by address: the universe's generators, which save points hold themselves.

    Raises:
        Uncopyable: Some of it cannot be copied faithfully.
    """
    attributes = {name: _variables(vars(kind)) for name, kind in _classes(module, "")}
    return _copy(State(instance, _variables(module), attributes), shared)


def reinstate(state: State, module: dict[str, Any], shared: dict[int, Any]) -> Any:
    """Write a copy of a state back into its module; return the copied instance.

    Raises:
        Uncopyable: It cannot be copied any more.
    """
    fresh = _copy(state, shared)
    for name in _variables(module).keys() - fresh.module.keys():
        del module[name]
    module.update(fresh.module)
    for name, kind in _classes(module, ""):
        values = fresh.classes.get(name, {})
        for key in _variables(vars(kind)).keys() - values.keys():
            delattr(kind, key)
        for key, value in values.items():
            setattr(kind, key, value)
    return fresh.instance


def hides_state(value: Any) -> bool:
    """Whether a function (or what wraps one) holds more than code: a closure, a mutable default, an attribute.

    The cell by which a method finds its class for ``super()`` holds a type, which is no state of its own.
    """
    return _hides(value, set())


def _hides(value: Any, seen: set[int]) -> bool:
    if isinstance(value, _FIXED) or id(value) in seen:
        return False
    seen.add(id(value))
    parts: list[Any]
    if isinstance(value, tuple):
        parts = list(value)
    elif isinstance(value, property):
        parts = [value.fget, value.fset, value.fdel]
    elif isinstance(value, classmethod | staticmethod):
        parts = [value.__func__]
    elif isinstance(value, types.FunctionType):
        try:
            held = [cell.cell_contents for cell in value.__closure__ or ()]
        except ValueError:  # an empty cell will be filled later
            return True
        held += [part for name, part in vars(value).items() if not name.startswith("__")]
        if any(isinstance(part, _SCALARS) for part in held):  # which nonlocal, or an assignment, would replace
            return True
        parts = [*_defaults(value), *held]
    elif isinstance(value, types.BuiltinFunctionType):
        return not isinstance(value.__self__, types.ModuleType | type | None)
    else:
        return type(value).__module__ != "dataclasses"  # its markers for missing values
    return any(_hides(part, seen) for part in parts)


def _defaults(function: types.FunctionType) -> tuple[Any, ...]:
    return (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())


def _classes(namespace: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, type]]:
    """The program's classes, those inside classes too. Enumerations cannot change."""
    for name, kind in list(namespace.items()):
        if isinstance(kind, type) and kind.__module__ == MODULE_NAME and not issubclass(kind, enum.Enum):
            yield prefix + name, kind
            if not name.startswith("__"):
                yield from _classes(vars(kind), f"{prefix}{name}.")


def _variables(namespace: Mapping[str, Any]) -> dict[str, Any]:
    """What a program may have changed in a module or class.

    Raises:
        Uncopyable: A function hides state.
    """
    found = {}
    for key, value in namespace.items():
        special = key.startswith("__")
        if isinstance(value, types.FunctionType) and special:  # those that dataclasses generate have closures
            hides = any(map(hides_state, _defaults(value)))
        else:
            hides = isinstance(value, _FUNCTIONS) and hides_state(value)
        if hides:
            raise Uncopyable(f"the function {key} hides state from copying")
        if not special and key != "_abc_impl" and not isinstance(value, _NO_VARIABLES):
            found[key] = value
    return found


def _copy(state: State, shared: dict[int, Any]) -> State:
    """Deep copy, with copy's own table of types changed for the moment."""
    table: dict[type, Any] = copy._deepcopy_dispatch  # type: ignore[attr-defined]
    atomic: set[type] = getattr(copy, "_atomic_types", set())  # looked at before the table, from Python 3.14 on
    before = {kind: table.get(kind) for kind in _HIDING}
    was_atomic = atomic.intersection(_HIDING)
    table.update(dict.fromkeys(_HIDING, _refuse))
    atomic.difference_update(_HIDING)
    try:
        return copy.deepcopy(state, dict(shared))
    except Uncopyable:
        raise
    except Exception as error:  # whatever a program's __deepcopy__ or __reduce__ raises
        raise Uncopyable(f"{type(error).__name__} while copying") from error
    finally:
        atomic.update(was_atomic)
        for kind, function in before.items():
            if function is None:
                del table[kind]
            else:
                table[kind] = function


def _refuse(value: Any, memo: dict[int, Any]) -> Any:
    """Copy what is mere code as itself; refuse the rest."""
    if isinstance(value, types.FunctionType | types.BuiltinFunctionType):
        owner = getattr(value, "__self__", None)
        is_shared = owner is not None and memo.get(id(owner)) is owner
        if is_shared or not hides_state(value):
            return value
    raise Uncopyable(f"a {type(value).__name__} hides state from copying")


#: Copying these would keep pointing at the original's state.
_HIDING: tuple[type, ...] = (
    types.FunctionType, types.BuiltinFunctionType, types.GeneratorType, types.MethodWrapperType, types.CellType,
    type(iter([])), type(iter({})), type(iter(())), type(iter("")), type(iter(set())), enumerate, zip, map, filter,
    weakref.ref,
)  # fmt: skip
