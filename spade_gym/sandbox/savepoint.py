"""Save points of an instance inside its worker, by deep copy of all the state that its program can reach.

A deep copy is right only when nothing of the state hides where copying does not reach: a closure (a criterion
that captured ``self``), a generator, an open iterator. ``Uncopyable`` is raised then, and the caller replays the
actions instead.
"""

from __future__ import annotations

import copy
import types
import weakref
from collections.abc import Mapping
from typing import Any, NamedTuple

#: Name of a program's module.
_MODULE = "spade_program"
_FIXED = (type, types.ModuleType, types.BuiltinFunctionType)
_FUNCTIONS = (types.FunctionType, property, classmethod, staticmethod)
_SCALAR = (str, int, float, complex, bool, bytes, type(None))
_CONSTANT = (type, types.ModuleType, types.BuiltinFunctionType, *_SCALAR)


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


def _refuse(value: Any, memo: dict[int, Any]) -> Any:
    if isinstance(value, types.FunctionType) and not hides_state(value):
        return value
    raise Uncopyable(f"a {type(value).__name__} hides state from copying")


def hides_state(value: Any) -> bool:
    """Whether a function (or what wraps one) holds more than code: a closure, a mutable default, an attribute.

    The cell by which a method finds its class for ``super()`` holds a type, which is no state of its own.
    """
    if isinstance(value, property):
        return any(hides_state(part) for part in (value.fget, value.fset, value.fdel))
    if isinstance(value, classmethod | staticmethod):
        return hides_state(value.__func__)
    if not isinstance(value, types.FunctionType):
        return not isinstance(value, _CONSTANT) and not (isinstance(value, tuple) and not any(map(hides_state, value)))
    held = [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values(), *vars(value).values()]
    try:
        held += [cell.cell_contents for cell in value.__closure__ or ()]
    except ValueError:  # an empty cell will be filled later
        return True
    return any(part is not value and hides_state(part) for part in held)


#: Copying these would keep pointing at the original's state. The table is copy's own dispatch mechanism.
_HIDING: tuple[type, ...] = (
    types.FunctionType, types.GeneratorType, types.MethodWrapperType, types.CellType, weakref.ref,
    type(iter([])), type(iter({})), type(iter(())), type(iter("")), type(iter(set())), enumerate, zip, map, filter,
)  # fmt: skip


def capture(instance: Any, module: dict[str, Any], shared: dict[int, Any]) -> State:
    """Copy an instance with its module's and classes' variables.

    Args:
        instance: The environment object.
        module: Namespace of its module.
        shared: What is not to be copied, by address: the universe's generators, which save points hold themselves.

    Raises:
        Uncopyable: Some of it cannot be copied faithfully.
    """
    attributes = {name: _variables(vars(kind)) for name, kind in _classes(module).items()}
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
    for name, kind in _classes(module).items():
        values = fresh.classes.get(name, {})
        for key in _variables(vars(kind)).keys() - values.keys():
            delattr(kind, key)
        for key, value in values.items():
            setattr(kind, key, value)
    return fresh.instance


def _copy(state: State, shared: dict[int, Any]) -> State:
    dispatch: dict[type, Any] = copy._deepcopy_dispatch  # type: ignore[attr-defined]
    before = {kind: dispatch.get(kind) for kind in _HIDING}
    dispatch.update(dict.fromkeys(_HIDING, _refuse))
    try:
        return copy.deepcopy(state, dict(shared))
    except Uncopyable:
        raise
    except Exception as error:  # whatever a program's __deepcopy__ or __reduce__ raises
        raise Uncopyable(f"{type(error).__name__} while copying") from error
    finally:
        for kind, function in before.items():
            if function is None:
                del dispatch[kind]
            else:
                dispatch[kind] = function


def _classes(module: dict[str, Any]) -> dict[str, type]:
    return {name: kind for name, kind in module.items() if isinstance(kind, type) and kind.__module__ == _MODULE}


def _variables(namespace: Mapping[str, Any]) -> dict[str, Any]:
    """What a program may have changed in a module or class; refuses functions that hide state.

    Raises:
        Uncopyable: A function hides state.
    """
    found = {}
    for key, value in namespace.items():
        if key.startswith("__") or isinstance(value, _FIXED):
            continue
        if isinstance(value, _FUNCTIONS):
            if hides_state(value):
                raise Uncopyable(f"the function {key} hides state from copying")
        elif not isinstance(value, types.GetSetDescriptorType | types.MemberDescriptorType):
            found[key] = value
    return found
