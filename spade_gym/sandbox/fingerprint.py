"""Are two states of a program the same? A digest of everything that an instance holds.

Runs inside the worker. What could behave differently must differ in the digest; where that cannot be promised
(a state that save points refuse, see ``copies.py``) there is no digest.
"""

from __future__ import annotations

import enum
import hashlib
import itertools
import random
import re
import sys
import types
from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any

from spade_gym.sandbox import savepoint
from spade_gym.sandbox.copies import MODULE_NAME, SCALARS, table_of
from spade_gym.sandbox.reach import Surroundings

_MAX_NODES = 50_000
_POSITIONS = 8
_MANY = 100


class _Unknown(Exception):
    """Some of the state cannot be read."""


def fingerprint(
    instance: Any, module: dict[str, Any], shared: dict[int, Any], extra: tuple[Any, ...], around: Surroundings
) -> str | None:
    """Return a digest of an instance, its module's and classes' mutable state and ``extra``; ``None`` if unknown.

    Args:
        instance: The environment object.
        module: Globals of its module.
        shared: Parts of ``extra`` that the program can reach, by address (see ``savepoint.capture``).
        extra: Further state, such as that of the virtual clock.
        around: The modules that it may use.
    """
    try:
        state = savepoint.capture(instance, module, shared, around, moves=False)
        return _Writer().write((*state, extra))
    except (_Unknown, savepoint.Uncopyable, RecursionError):
        return None


class _Writer:
    """Writes values into a digest in a form that equal states share."""

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}
        self._kept: list[Any] = []

    def write(self, value: Any) -> str:
        """Digest of a value."""
        digest = hashlib.blake2b(digest_size=16)
        self._add(digest, value)
        return digest.hexdigest()

    def _add(self, digest: Any, value: Any) -> None:
        kind = type(value)
        if kind in SCALARS:
            text = f"{value:x}" if kind is int else repr(value)
            digest.update(f"{kind.__name__}:{text};".encode("utf-8", "surrogatepass"))
            return
        if id(value) in self._seen:
            digest.update(f"again:{self._seen[id(value)]};".encode())
            return
        if len(self._seen) >= _MAX_NODES:
            raise _Unknown
        self._seen[id(value)] = len(self._seen)
        self._kept.append(value)  # an address must not be reused while it stands for a value
        digest.update(f"{kind.__module__}.{kind.__qualname__}(".encode())
        for part in _parts(value):
            self._add(digest, part)
        digest.update(b")")


def _parts(value: Any) -> Any:
    """What an object consists of; everything of it that could matter."""
    kind = type(value)
    if kind is tuple and len(value) > _MANY and all(type(part) is int for part in value):
        return [repr(value)]  # the state of a generator
    if kind in (set, frozenset):
        counters, table = table_of(value)
        hashes = b"".join(table[at + 8 : at + 16] for at in range(0, len(table), 16))  # addresses tell nothing
        return [*counters, hashes, *value]
    if kind in (list, deque) or isinstance(value, tuple):
        return [len(value), getattr(value, "maxlen", None), *value]
    if kind in (dict, OrderedDict, Counter, defaultdict):
        pairs = itertools.chain.from_iterable(value.items())
        return [len(value), getattr(value, "default_factory", None), *pairs]
    if isinstance(value, random.Random):
        return [value.getstate()] if kind is not random.SystemRandom else []
    if isinstance(value, type):
        return [value.__module__, value.__qualname__]
    if isinstance(value, enum.Enum):
        return [value.name]
    if kind is types.ModuleType:
        return [value.__name__]
    if kind is property:
        return [value.fget, value.fset, value.fdel]
    if kind in (classmethod, staticmethod):
        return [value.__func__]
    return _callable_parts(value) if callable(value) and kind.__module__ != MODULE_NAME else _object_parts(value)


def _callable_parts(value: Any) -> list[Any]:
    if isinstance(value, types.FunctionType):
        code = value.__code__
        places = itertools.islice(code.co_positions(), _POSITIONS)  # which tell lambdas of one line apart
        return [value.__qualname__, code.co_filename, repr(list(places)), value.__defaults__, value.__kwdefaults__]
    if isinstance(value, types.MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, types.BuiltinFunctionType):
        owner = value.__self__
        return [value.__qualname__, owner if isinstance(owner, random.Random) else getattr(owner, "__name__", None)]
    if type(value).__module__ == "typing":
        return [repr(value)]
    raise _Unknown


def _object_parts(value: Any) -> list[Any]:
    kind = type(value)
    if kind.__module__ == MODULE_NAME:
        return [vars(value)]
    if isinstance(value, re.Pattern):
        return [value.pattern, value.flags]
    if kind.__module__.split(".")[0] == "numpy":
        return _numpy_parts(value)
    if kind.__module__ in ("builtins", "decimal", "fractions", "datetime", "uuid", "typing", "types", "collections"):
        return [bytes(value) if kind is bytearray else repr(value)]  # of kinds that savepoint takes, all told by repr
    raise _Unknown


def _numpy_parts(value: Any) -> list[Any]:
    numpy = sys.modules["numpy"]
    if isinstance(value, numpy.generic | numpy.ndarray):
        flags = [value.flags.c_contiguous, value.flags.writeable]
        return [repr(value.dtype), repr(value.shape), value.tobytes(), *flags]
    if isinstance(value, numpy.random.Generator):
        return [value.bit_generator.state]
    return [repr(value)] if isinstance(value, numpy.dtype) else _refuse()


def _refuse() -> Any:
    raise _Unknown
