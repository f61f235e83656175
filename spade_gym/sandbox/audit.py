"""What a program's own code tried to reach: files, the network, processes, the environment, native code.

Python's audit hooks see an attempt before the jail refuses it, so a program that catches the refusal is seen
too. Imports of standard modules are not attempts; ``os.stat``, which raises no audit event, and ``os.environ``
are wrapped. Native code (``ctypes``) can make system calls that no hook sees, so its use is itself recorded.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable, Iterator, MutableMapping
from types import FrameType
from typing import Any

PROGRAM_FILE = "<program>"
_STDLIB = os.path.realpath(sysconfig.get_paths()["stdlib"]) + os.sep
_MAX_ROWS = 200

_KINDS = {
    "open": "file", "sqlite3.connect": "file", "builtins.input": "input", "_thread.start_new_thread": "thread",
    "os.system": "process", "os.fork": "process", "os.forkpty": "process", "os.exec": "process",
    "os.posix_spawn": "process", "os.spawn": "process", "os.kill": "process", "os.killpg": "process",
    "pty.spawn": "process", "signal.pthread_kill": "process", "os.putenv": "environment",
    "os.unsetenv": "environment", "compile": "eval", "exec": "eval", "resource.setrlimit": "process",
    "resource.prlimit": "process", "os.startfile": "process",
}  # fmt: skip
_KIND_BY_PREFIX = (
    ("socket.", "network"), ("urllib.", "network"), ("http.", "network"), ("ftplib.", "network"),
    ("smtplib.", "network"), ("subprocess.", "process"), ("ctypes.", "native"), ("shutil.", "file"),
    ("glob.", "file"), ("tempfile.", "file"), ("fcntl.", "file"),
)  # fmt: skip
_FILE_CALLS = (
    "listdir", "scandir", "chdir", "mkdir", "remove", "rename", "rmdir", "link", "symlink", "truncate", "utime",
    "chmod", "chown", "lockf", "getxattr", "setxattr", "listxattr", "removexattr", "walk", "fwalk", "chflags",
)  # fmt: skip
_KINDS.update({f"os.{name}": "file" for name in _FILE_CALLS})
_STAT_CALLS = ("stat", "lstat", "access", "readlink", "statvfs")
#: Standard modules that open or compile on their own account, whoever calls them.
_OWN_ACCOUNT = ("importlib", "zipimport", "collections", "dataclasses", "enum", "typing", "ast", "inspect", "abc")


class AuditLog:
    """Counts attempts of the program's own code by kind, detail and line."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str, int], int] = {}
        self._active = False

    def start(self) -> None:
        """Begin to record; hooks cannot be removed, so this happens in a worker of its own."""
        if self._active:
            return
        self._active = True
        self._wrap_stat()
        os.environ = _WatchedEnvironment(dict(os.environ), self._environment)  # type: ignore[assignment]
        sys.addaudithook(self._hook)

    def rows(self) -> list[tuple[str, str, int, int]]:
        """Return ``(kind, detail, line, count)`` of everything recorded so far."""
        return [(*key, count) for key, count in self._rows.items()]

    def _add(self, kind: str, detail: str, line: int) -> None:
        key = (kind, detail, line)
        if key in self._rows or len(self._rows) < _MAX_ROWS:
            self._rows[key] = self._rows.get(key, 0) + 1

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        kind = _KINDS.get(event)
        if kind is None:
            kind = next((value for prefix, value in _KIND_BY_PREFIX if event.startswith(prefix)), None)
            if kind is None:
                return
        if kind == "eval":
            self._evaluation(event, arguments)
            return
        subject = arguments[0] if arguments else ""
        if kind == "file" and _harmless(event, subject):
            return
        line = _line_of_program(sys._getframe(1))
        if line is not None:
            self._add(kind, _detail(event, subject), line)

    def _evaluation(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Record ``eval``/``exec``/``compile`` called by the program itself or by a third-party library for it."""
        caller: FrameType | None = sys._getframe(2)
        if event == "exec" or caller is None:  # the compile event before it carries the text
            return
        if caller.f_code.co_filename.startswith((_STDLIB, "<frozen")):
            return
        line = _line_of_program(caller)
        if line is not None:
            source = arguments[0]
            text = source.decode("utf-8", "replace") if isinstance(source, bytes) else source
            self._add("eval", text[:200] if isinstance(text, str) else type(source).__name__, line)

    def _environment(self, key: object) -> None:
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and frame.f_code.co_filename.endswith(("os.py", "_collections_abc.py")):
            frame = frame.f_back
        if frame is not None and frame.f_code.co_filename == PROGRAM_FILE:
            self._add("environment", _detail("os.environ", key), frame.f_lineno)

    def _wrap_stat(self) -> None:
        for name in _STAT_CALLS:
            original = getattr(os, name, None)
            if original is not None:
                setattr(os, name, self._watched(name, original))

    def _watched(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            subject = arguments[0] if arguments else ""
            line = None if _harmless(name, subject) else _line_of_program(sys._getframe(1))
            if line is not None:
                self._add("file", _detail(f"os.{name}", subject), line)
            return original(*arguments, **options)

        return call


class _WatchedEnvironment(MutableMapping[str, str]):
    """``os.environ`` that reports who looks into it."""

    def __init__(self, values: dict[str, str], report: Callable[[object], None]) -> None:
        self._values = values
        self._report = report

    def __getitem__(self, key: str) -> str:
        self._report(key)
        return self._values[key]

    def __setitem__(self, key: str, value: str) -> None:
        self._report(key)
        self._values[key] = value

    def __delitem__(self, key: str) -> None:
        self._report(key)
        del self._values[key]

    def __iter__(self) -> Iterator[str]:
        self._report("*")
        return iter(self._values)

    def __len__(self) -> int:
        self._report("*")
        return len(self._values)


def _detail(event: str, subject: object) -> str:
    shown = subject if type(subject) in (str, int) else type(subject).__name__
    return f"{event}({shown!r})"[:200]


def _harmless(event: str, subject: object) -> bool:
    """The standard library's own files, and pseudo-files such as ``<program>``, hold nothing of anybody's."""
    if event == "sqlite3.connect":
        return subject == ":memory:"
    if type(subject) is not str:
        return False
    return subject.startswith("<") or (subject.startswith(_STDLIB) and ".." not in subject)


def _line_of_program(frame: FrameType | None) -> int | None:
    """Line of the program that caused an event; ``None`` when it was an import, or not the program."""
    while frame is not None:
        name = frame.f_code.co_filename
        if name == PROGRAM_FILE:
            return frame.f_lineno
        if name.startswith("<frozen") and "importlib" in name:
            return None
        if name.startswith(_STDLIB) and name[len(_STDLIB) :].startswith(_OWN_ACCOUNT):
            return None
        frame = frame.f_back
    return None
