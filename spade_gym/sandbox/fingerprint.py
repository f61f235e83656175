"""Are two states of a program the same? A digest of everything that an instance holds.

Runs inside the worker. What could behave differently must differ in the digest; where that cannot be promised
(a generator, a closure, an object of unknown kind) there is no digest.
"""

from __future__ import annotations

import hashlib
import random
import re
import types
from collections import deque
from typing import Any

from spade_gym.sandbox import savepoint

_MAX_NODES = 50_000
_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_NAMED = (type, types.ModuleType, types.BuiltinFunctionType)


class _Unknown(Exception):
    """Some of the state cannot be read."""


def fingerprint(instance: Any, module: dict[str, Any], shared: dict[int, Any], extra: tuple[Any, ...]) -> str | None:
    """Return a digest of an instance, its module's and classes' mutable state and ``extra``; ``None`` if unknown.

    Args:
        instance: The environment object.
        module: Globals of its module.
        shared: Parts of ``extra`` that the program can reach, by address (see ``savepoint.capture``).
        extra: Further state, such as that of the virtual clock.
    """
    try:
        state = savepoint.capture(instance, module, shared)
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
        if kind in _PLAIN:
            digest.update(f"{kind.__name__}:{value!r};".encode("utf-8", "surrogatepass"))
            return
        if id(value) in self._seen:
            digest.update(f"again:{self._seen[id(value)]};".encode())
            return
        if len(self._seen) >= _MAX_NODES:
            raise _Unknown
        self._seen[id(value)] = len(self._seen)
        self._kept.append(value)  # an address must not be reused while it stands for a value
        digest.update(f"{kind.__module__}.{kind.__qualname__}(".encode())
        self._add_parts(digest, value)
        digest.update(b")")

    def _add_parts(self, digest: Any, value: Any) -> None:
        if isinstance(value, _NAMED) or (isinstance(value, types.FunctionType) and not savepoint.hides_state(value)):
            digest.update(str(getattr(value, "__qualname__", value.__name__)).encode())
        elif isinstance(value, set | frozenset):
            parts = sorted(_Writer().write(item) for item in value)
            digest.update("".join(parts).encode())
        elif type(value) in (list, tuple, deque):
            for item in value:
                self._add(digest, item)
        elif type(value) is dict:
            for key, item in value.items():
                self._add(digest, key)
                self._add(digest, item)
        elif isinstance(value, random.Random):
            self._add(digest, value.getstate())
        elif isinstance(value, re.Pattern):
            digest.update(repr((value.pattern, value.flags)).encode("utf-8", "surrogatepass"))
        else:
            self._add_object(digest, value)

    def _add_object(self, digest: Any, value: Any) -> None:
        """Whatever copying would carry over."""
        try:
            parts = value.__reduce_ex__(4)
        except Exception as error:  # objects that cannot be pickled raise anything
            raise _Unknown from error
        if not isinstance(parts, tuple):
            raise _Unknown
        for part in parts:
            self._add(digest, list(part) if hasattr(part, "__next__") else part)
