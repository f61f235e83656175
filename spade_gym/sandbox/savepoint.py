"""Save points of an instance inside its worker, by deep copy of all the state that its program can reach.

A deep copy is right only when nothing of the state hides where copying does not reach: a closure (a criterion
that captured ``self``), a generator, an open iterator. ``Uncopyable`` is raised then, and the caller replays the
actions instead.
"""

from __future__ import annotations

import copy
import types
from typing import Any, NamedTuple

_CONSTANT = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, str, int, float, bool, bytes)


class Uncopyable(Exception):
    """The state cannot be copied faithfully."""


class State(NamedTuple):
    """A deep copy of what a program's instance can change.

    Attributes:
        instance: The environment object.
        module: Mutable globals of its module.
        classes: Mutable class attributes, by class name and attribute.
    """

    instance: Any
    module: dict[str, Any]
    classes: dict[str, dict[str, Any]]


def _refuse(value: Any, memo: dict[int, Any]) -> Any:
    if isinstance(value, types.FunctionType) and value.__closure__ is None:
        return value
    raise Uncopyable(f"a {type(value).__name__} hides state from copying")


#: Copying a closure would keep pointing at the original's state. The table is copy's own dispatch mechanism.
_HIDING = (
    types.FunctionType, types.GeneratorType, types.MethodWrapperType, types.CellType,
    type(iter([])), type(iter({})), type(iter(())), type(iter("")), type(iter(set())), enumerate, zip, map, filter,
)  # fmt: skip


def capture(instance: Any, module: dict[str, Any]) -> State:
    """Copy an instance with its module's and classes' mutable state.

    Raises:
        Uncopyable: Some of it cannot be copied faithfully.
    """
    classes = {name: kind for name, kind in module.items() if isinstance(kind, type) and _is_local(kind)}
    attributes = {
        name: {key: value for key, value in vars(kind).items() if _is_mutable(key, value)}
        for name, kind in classes.items()
    }
    variables = {key: value for key, value in module.items() if _is_mutable(key, value)}
    return _copy(State(instance, variables, attributes))


def reinstate(state: State, module: dict[str, Any]) -> Any:
    """Write a copy of a state back into its module; return the copied instance."""
    fresh = _copy(state)
    module.update(fresh.module)
    for name, values in fresh.classes.items():
        for key, value in values.items():
            setattr(module[name], key, value)
    return fresh.instance


def _copy(state: State) -> State:
    dispatch: dict[type, Any] = copy._deepcopy_dispatch  # type: ignore[attr-defined]
    before = {kind: dispatch.get(kind) for kind in _HIDING}
    dispatch.update(dict.fromkeys(_HIDING, _refuse))
    try:
        return copy.deepcopy(state)
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


def _is_local(kind: type) -> bool:
    return kind.__module__ == "spade_program"


def _is_mutable(key: str, value: Any) -> bool:
    return not key.startswith("__") and not isinstance(value, _CONSTANT + (property, classmethod, staticmethod))
