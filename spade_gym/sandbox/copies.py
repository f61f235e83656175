"""Copies values of known kinds exactly, and refuses the rest. Runs inside the worker.

Unlike ``copy.deepcopy`` it never runs the program's code (``__deepcopy__``, ``__reduce__``), and it takes nothing on
trust: an unknown kind is ``Uncopyable``.
"""

from __future__ import annotations

import abc
import collections
import copy
import ctypes
import datetime
import decimal
import enum
import fractions
import random
import re
import sys
import types
import typing
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from spade_gym.sandbox import gem_shim
from spade_gym.sandbox.audit import PROGRAM_FILE
from spade_gym.sandbox.reach import Surroundings
from spade_gym.sandbox.tool_use import ToolUseBaseEnv

#: Name of a program's module.
MODULE_NAME = "spade_program"

SCALARS = (type(None), bool, int, float, complex, str, bytes)
#: Immutable through and through, whatever they hold.
_ATOMS: frozenset[type] = frozenset({
    *SCALARS, range, type(Ellipsis), type(NotImplemented), re.Pattern, decimal.Decimal, fractions.Fraction, uuid.UUID,
    datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone, types.GenericAlias,
    types.UnionType, typing.TypeVar, types.GetSetDescriptorType, types.MemberDescriptorType,
    type(collections.namedtuple("_Named", "x").x),  # type: ignore[attr-defined]
})  # fmt: skip
_HEAP_TYPE = 1 << 9  # set where Python code could give a type attributes (Py_TPFLAGS_HEAPTYPE)
_PLAIN_RANDOM = random.Random  # before ``world.py`` replaces it
_FOREIGN_BASES = (object, abc.ABC, typing.Generic, ToolUseBaseEnv, gem_shim.Env)
_MEMBER_ATTRIBUTES = {"_value_", "_name_", "__objclass__", "_sort_order_"}


class Uncopyable(Exception):
    """The state is not known to be copied faithfully."""


def check_function(function: types.FunctionType) -> None:
    """See that a function is no more than code.

    The cell by which a method finds its class for ``super()`` holds a type, which is no state of its own, and what
    this package wraps around a program's methods holds only the method.

    Raises:
        Uncopyable: It has a closure, a default that can change, or attributes.
    """
    if function.__code__.co_filename != PROGRAM_FILE:  # written by dataclasses, namedtuple, or our own base class
        wrapped = function.__dict__.get("__wrapped__")
        if isinstance(wrapped, types.FunctionType):
            check_function(wrapped)
    elif function.__dict__.keys() - {"__isabstractmethod__"}:
        raise Uncopyable(f"the function {function.__name__} has attributes")
    elif function.__closure__ and function.__code__.co_freevars != ("__class__",):
        raise Uncopyable(f"the function {function.__name__} has a closure")
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    if not all(_is_fixed_default(value) for value in defaults):
        raise Uncopyable(f"the function {function.__name__} has a default that can change")


def _is_fixed_default(value: Any) -> bool:
    if isinstance(value, type):
        return True
    if type(value) is tuple:
        return all(map(_is_fixed_default, value))
    return type(value) in _ATOMS or isinstance(value, enum.Enum) or type(value).__module__ in ("dataclasses", "typing")


class Copier:
    """Copies values, each object once.

    Args:
        classes: The program's own classes, whose attributes are copied elsewhere.
        shared: What stands for itself in the copy, by address.
        around: Modules whose functions and types stand for themselves.
        moves: Whether the copy will be used; else it is only a reading, in which sets may stand for themselves.
    """

    def __init__(
        self, classes: Sequence[type], shared: dict[int, Any], around: Surroundings, *, moves: bool = True
    ) -> None:
        self._moves = moves
        self._classes = {id(kind) for kind in classes}
        self._memo: dict[int, Any] = dict(shared)
        self._around = around
        self._plain = {kind for kind in classes if _is_plain_class(kind, self._classes)}
        self._randoms = {_PLAIN_RANDOM, random.Random}
        for kind in classes:
            self._type(kind)

    def copy(self, value: Any) -> Any:
        """Return a copy, or the value itself where it cannot change.

        Raises:
            Uncopyable: It is, or holds, something of a kind not known to be safe.
        """
        kind = type(value)
        if kind in _ATOMS:
            return value
        key = id(value)
        if key in self._memo:
            return self._memo[key]
        method = _BY_KIND.get(kind)
        if method is not None:
            return method(self, value)
        if kind in self._plain:
            return self._instance(kind, value)
        found = self._other(kind, value)
        self._memo[key] = found
        return found

    def is_atom(self, value: Any) -> bool:
        """Whether a value is immutable through and through, so that it can be a key and need not be copied."""
        kind = type(value)
        if kind in _ATOMS:
            return True
        if kind is tuple or kind is frozenset:
            return all(map(self.is_atom, value))
        if isinstance(value, enum.Enum):
            self._member(value)
            return True
        return False

    def _list(self, value: list[Any]) -> list[Any]:
        new: list[Any] = []
        self._memo[id(value)] = new
        copy_one = self.copy
        new.extend([item if type(item) in _ATOMS else copy_one(item) for item in value])
        return new

    def _tuple(self, value: tuple[Any, ...]) -> Any:
        parts = [self.copy(item) for item in value]
        same = all(new is old for new, old in zip(parts, value, strict=True))
        return self._memo.setdefault(id(value), value if same else tuple(parts))

    def _dict(self, value: dict[Any, Any]) -> Any:
        return self._fill(value, {})

    def _fill(self, value: dict[Any, Any], new: dict[Any, Any]) -> Any:
        if type(value) is not dict and getattr(value, "__dict__", None):
            raise Uncopyable(f"a {type(value).__name__} with attributes")
        self._memo[id(value)] = new
        for key, item in value.items():
            if type(key) not in _ATOMS and not self.is_atom(key):
                raise Uncopyable(f"a dict with a key of type {type(key).__name__}")
            new[key] = item if type(item) in _ATOMS else self.copy(item)
        return new

    def _defaultdict(self, value: Any) -> Any:
        return self._fill(value, collections.defaultdict(self.copy(value.default_factory)))

    def _ordered(self, value: Any) -> Any:
        return self._fill(value, collections.OrderedDict())

    def _counter(self, value: Any) -> Any:
        return self._fill(value, collections.Counter())

    def _deque(self, value: Any) -> Any:
        new: Any = collections.deque(maxlen=value.maxlen)
        self._memo[id(value)] = new
        new.extend([self.copy(item) for item in value])
        return new

    def _set(self, value: set[Any]) -> set[Any]:
        if not all(map(self.is_atom, value)):
            raise Uncopyable("a set of what can change")
        new = self._memo[id(value)] = _same_set(value) if self._moves else value
        return new

    def _frozenset(self, value: frozenset[Any]) -> frozenset[Any]:
        if not self.is_atom(value):
            raise Uncopyable("a frozenset of what can change")
        return value

    def _bytearray(self, value: bytearray) -> bytearray:
        new = self._memo[id(value)] = bytearray(value)
        return new

    def _method(self, value: types.MethodType) -> Any:
        function = self.copy(value.__func__)
        return self._memo.setdefault(id(value), types.MethodType(function, self.copy(value.__self__)))

    def _function(self, value: types.FunctionType) -> Any:
        if not self._around.hold(value):
            check_function(value)
        return value

    def _property(self, value: property) -> Any:
        for function in (value.fget, value.fset, value.fdel):
            self._part(function)
        return value

    def _wrapped(self, value: Any) -> Any:
        self._part(value.__func__)
        return value

    def _part(self, function: Any) -> None:
        if isinstance(function, types.FunctionType):
            self._function(function)
        elif function is not None:
            raise Uncopyable(f"a {type(function).__name__} in a property or method")

    def _builtin(self, value: types.BuiltinFunctionType) -> Any:
        owner = value.__self__
        if owner is None or isinstance(owner, types.ModuleType) or self._memo.get(id(owner)) is owner:
            return value
        raise Uncopyable(f"a bound {value.__name__} of a {type(owner).__name__}")

    def _module(self, value: types.ModuleType) -> Any:
        if self._around.modules.get(id(value)) is not value:
            raise Uncopyable(f"the module {value.__name__}")
        return value

    def _instance(self, kind: type, value: Any) -> Any:
        new: Any = object.__new__(kind)  # not the program's __new__
        self._memo[id(value)] = new
        attributes = new.__dict__
        attributes.clear()
        for key, item in value.__dict__.items():
            attributes[key] = item if type(item) in _ATOMS else self.copy(item)
        return new

    def _other(self, kind: type, value: Any) -> Any:
        if kind in self._randoms:
            return self._random(kind, value)
        if kind is random.SystemRandom and not vars(value).keys() - {"gauss_next"}:
            return value  # it has no state of its own
        if isinstance(value, type):
            self._type(value)
            return value
        if isinstance(value, enum.Enum):
            self._member(value)
            return value
        if kind.__module__ == "typing" and not isinstance(value, tuple):
            return value  # List[int] and its like
        if kind in (datetime.date, datetime.datetime):  # the replacements, which ``world.py`` puts there
            return value
        if isinstance(value, tuple):
            return self._named_tuple(kind, value)
        if kind.__module__.split(".")[0] == "numpy":
            return self._numpy(kind, value)
        raise Uncopyable(f"a {kind.__module__}.{kind.__qualname__}")

    def _random(self, kind: type, value: Any) -> Any:
        if vars(value).keys() - {"gauss_next"}:
            raise Uncopyable("a generator with attributes")
        new: Any = kind.__new__(kind, 0)
        new.setstate(value.getstate())
        return new

    def _type(self, kind: type) -> None:
        if id(kind) in self._classes:
            if type(kind) not in (type, abc.ABCMeta) and not issubclass(kind, enum.Enum):
                raise Uncopyable(f"the class {kind.__name__} has a metaclass")
            if issubclass(kind, enum.Enum):
                for member in kind.__members__.values():
                    self._member(member)
        elif kind.__flags__ & _HEAP_TYPE and not (self._around.hold(kind) or kind in _FOREIGN_BASES):
            raise Uncopyable(f"the class {kind.__name__}, which is none of the module's")

    def _member(self, member: enum.Enum) -> None:
        if vars(member).keys() - _MEMBER_ATTRIBUTES or not self.is_atom(member.value):
            raise Uncopyable(f"{member!r} has more than a value that cannot change")
        if id(type(member)) not in self._classes and not self._around.hold(type(member)):
            raise Uncopyable(f"the enumeration {type(member).__name__} is none of the module's")

    def _named_tuple(self, kind: type, value: tuple[Any, ...]) -> Any:
        if kind.__bases__ != (tuple,) or not hasattr(kind, "_fields") or getattr(value, "__dict__", None):
            raise Uncopyable(f"a {kind.__name__}, which is a kind of tuple")
        self._type(kind)
        return tuple.__new__(kind, [self.copy(item) for item in value])

    def _numpy(self, kind: type, value: Any) -> Any:
        numpy = sys.modules["numpy"]
        if isinstance(value, numpy.generic) and not value.dtype.hasobject:
            return value if not isinstance(value, numpy.void) else _refuse("a record")
        if kind is numpy.ndarray and value.base is None and not value.dtype.hasobject:
            array: Any = value.copy(order="K")
            array.flags.writeable = value.flags.writeable
            return array
        if kind is numpy.dtype or isinstance(value, numpy.dtype):
            return value
        if kind is numpy.random.Generator and type(value.bit_generator) is numpy.random.PCG64:
            return copy.deepcopy(value)
        raise Uncopyable(f"a {kind.__module__}.{kind.__qualname__}")


def _refuse(what: str) -> Any:
    raise Uncopyable(what)


def _is_plain_class(kind: type, classes: set[int]) -> bool:
    """Whether an instance is no more than its ``__dict__``."""
    return (
        all(id(base) in classes or base in _FOREIGN_BASES for base in kind.__mro__)
        and not any("__slots__" in vars(base) for base in kind.__mro__ if id(base) in classes)
        and not any("__dict__" in vars(base) and isinstance(vars(base)["__dict__"], property) for base in kind.__mro__)
    )


class _SetHeader(ctypes.Structure):
    _fields_ = [("fill", ctypes.c_ssize_t), ("used", ctypes.c_ssize_t), ("mask", ctypes.c_ssize_t),
                ("table", ctypes.c_void_p), ("hash", ctypes.c_ssize_t), ("finger", ctypes.c_ssize_t)]  # fmt: skip


def table_of(value: set[Any] | frozenset[Any]) -> tuple[tuple[int, ...], bytes]:
    """The inner state of a set: its counters, and the hash and address that each place of its table holds.

    The order of a set depends on its history (collisions, growth, what was removed), which Python code cannot see, so
    this reads the memory of CPython's ``PySetObject``.

    Raises:
        Uncopyable: This is another Python.
    """
    if sys.implementation.name != "cpython" or object.__basicsize__ != 16:
        raise Uncopyable("a set, whose order is unknown")
    header = _SetHeader.from_address(id(value) + object.__basicsize__)
    if header.used != len(value) or header.mask & (header.mask + 1) or header.fill > header.mask:
        raise Uncopyable("a set, whose order is unknown")
    counters = (header.fill, header.used, header.mask, header.finger)
    return counters, ctypes.string_at(header.table, 16 * (header.mask + 1))


def _same_set(value: set[Any]) -> set[Any]:
    """A copy that will go on to iterate in the same way.

    Raises:
        Uncopyable: None was found.
    """
    table = table_of(value)
    for parts in (list(value), sorted(value, key=lambda item: _is_displaced(item, table))):
        new = set(parts)
        if table_of(new) == table:
            return new
    raise Uncopyable("a set whose order a copy would not keep")


def _is_displaced(item: Any, table: tuple[tuple[int, ...], bytes]) -> bool:
    """Whether a part of a set is not where its hash would have it, because others came before it."""
    place = 16 * (hash(item) & table[0][2])
    return int.from_bytes(table[1][place : place + 8], sys.byteorder) != id(item)


_BY_KIND: dict[type, Callable[[Copier, Any], Any]] = {
    list: Copier._list, tuple: Copier._tuple, dict: Copier._dict, set: Copier._set, frozenset: Copier._frozenset,
    bytearray: Copier._bytearray, collections.deque: Copier._deque, collections.defaultdict: Copier._defaultdict,
    collections.OrderedDict: Copier._ordered, collections.Counter: Copier._counter, types.MethodType: Copier._method,
    types.FunctionType: Copier._function, types.BuiltinFunctionType: Copier._builtin, types.ModuleType: Copier._module,
    property: Copier._property, classmethod: Copier._wrapped, staticmethod: Copier._wrapped,
}  # fmt: skip
