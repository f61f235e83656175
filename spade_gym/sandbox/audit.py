"""What a program's own code tried to reach: files, the network, processes, the environment, native code.

Python's audit hooks see an attempt before the jail refuses it, so a program that catches the refusal is seen
too. Reading the standard library and the preloaded packages, as imports do, is no attempt; ``os.stat``, which
raises no audit event, and ``os.environ`` are wrapped. Native code (``ctypes``) can make system calls that no hook
sees, so its use is itself recorded. A program that fights this log can empty it; the jail holds all the same.
"""

from __future__ import annotations

import _thread
import os
import socket
import sys
import sysconfig
import threading
import types
from collections.abc import Callable, Iterator, MutableMapping
from types import FrameType
from typing import Any

PROGRAM_FILE = "<program>"
_STDLIB = os.path.realpath(sysconfig.get_paths()["stdlib"]) + os.sep
_TIME_ZONES = "/usr/share/zoneinfo"
#: Tracebacks through the base class of tool-use programs look these files up.
_PACKAGE = os.path.dirname(os.path.realpath(__file__)) + os.sep
_MAX_ROWS = 200

_KINDS = {
    "open": "file", "sqlite3.connect": "file", "builtins.input": "input", "_thread.start_joinable_thread": "thread",
    "os.system": "process", "os.fork": "process", "os.forkpty": "process", "os.exec": "process",
    "os.posix_spawn": "process", "os.spawn": "process", "os.kill": "process", "os.killpg": "process",
    "pty.spawn": "process", "signal.pthread_kill": "process", "os.putenv": "environment",
    "os.unsetenv": "environment", "compile": "eval", "exec": "eval", "resource.setrlimit": "process",
    "resource.prlimit": "process", "os.startfile": "process",
}  # fmt: skip
_KIND_BY_PREFIX = (
    ("socket.", "network"), ("urllib.", "network"), ("http.", "network"), ("ftplib.", "network"),
    ("smtplib.", "network"), ("subprocess.", "process"), ("ctypes.", "native"), ("shutil.", "file"),
    ("glob.", "file"), ("tempfile.", "file"), ("fcntl.", "file"), ("pathlib.", "file"), ("webbrowser.", "network"),
    ("imaplib.", "network"), ("poplib.", "network"), ("telnetlib.", "network"), ("nntplib.", "network"),
)  # fmt: skip
_FILE_CALLS = (
    "listdir", "scandir", "chdir", "mkdir", "remove", "rename", "rmdir", "link", "symlink", "truncate", "utime",
    "chmod", "chown", "lockf", "getxattr", "setxattr", "listxattr", "removexattr", "walk", "fwalk", "chflags",
)  # fmt: skip
_KINDS.update({f"os.{name}": "file" for name in _FILE_CALLS})
_ENVIRONMENT_FILES = (os.sep + "os.py", os.sep + "_collections_abc.py")
_STAT_CALLS = ("stat", "lstat", "access", "readlink", "statvfs")


class AuditLog:
    """Counts attempts of the program's own code by kind, detail and line."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str, int], int] = {}
        self._active = False
        self._libraries: tuple[str, ...] = ()

    def start(self) -> None:
        """Begin to record; hooks cannot be removed, so this happens in a worker of its own."""
        if self._active:
            return
        self._active = True
        self._libraries = tuple(dict.fromkeys([_STDLIB, _TIME_ZONES + os.sep, *_package_folders()]))
        self._wrap_silent_calls()
        watched: Any = _WatchedEnvironment(dict(os.environ), self._environment)
        setattr(os, "environ", watched)  # noqa: B010 (plain assignment reads like a mistake, as ruff says)
        os.getenvb = lambda key, default=None: watched.get(os.fsdecode(key), default)
        os.environb = watched
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
        if kind == "file" and self._harmless(event, subject):
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
        while frame is not None and _is_environment_code(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is not None and frame.f_code.co_filename == PROGRAM_FILE:
            self._add("environment", _detail("os.environ", key), frame.f_lineno)

    def _wrap_silent_calls(self) -> None:
        """Replace functions that raise no audit event, or do so only after a system call that the jail refuses."""
        posix = sys.modules.get("posix")
        for name in _STAT_CALLS:
            self._wrap("file", name, os, posix)
        for name in ("pipe", "pipe2"):
            self._wrap("process", name, os, posix)
        self._wrap("network", "socketpair", socket, sys.modules.get("_socket"))
        for name in ("start_new_thread", "start_new"):  # silent in Python 3.11
            self._wrap("thread", name, _thread)
        threading._start_new_thread = _thread.start_new_thread  # type: ignore[attr-defined]

    def _wrap(self, kind: str, name: str, *modules: types.ModuleType | None) -> None:
        original: Callable[..., Any] | None = getattr(modules[0], name, None)
        if original is None:
            return

        def watched(*arguments: Any, **options: Any) -> Any:
            subject = arguments[0] if arguments else ""
            if kind != "file" or not self._harmless(name, subject):
                line = _line_of_program(sys._getframe(1))
                if line is not None:
                    self._add(kind, _detail(f"{modules[0].__name__}.{name}", subject), line)  # type: ignore[union-attr]
            return original(*arguments, **options)

        for module in modules:
            if module is not None:
                setattr(module, name, watched)

    def _harmless(self, event: str, subject: object) -> bool:
        """Libraries' own files, and pseudo-files such as ``<program>``, hold nothing of anybody's."""
        if event == "sqlite3.connect":
            return subject == ":memory:"
        try:
            path = os.fspath(subject)  # type: ignore[call-overload]
        except TypeError:
            return False
        if type(path) is not str:
            return False
        return path.startswith("<") or ((path + os.sep).startswith(self._libraries) and ".." not in path)


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

    def copy(self) -> dict[str, str]:
        """As ``os.environ.copy()``."""
        return dict(self)


def _detail(event: str, subject: object) -> str:
    shown = subject if type(subject) in (str, int) else type(subject).__name__
    return f"{event}({shown!r})"[:200]


def _package_folders() -> list[str]:
    """Folders of everything that was imported before the program, this package included."""
    folders = []
    for name, module in list(sys.modules.items()):
        if "." not in name:
            folders += [os.path.realpath(path) + os.sep for path in getattr(module, "__path__", [])]
    return folders


def _is_environment_code(name: str) -> bool:
    """``os.getenv`` and the mapping methods of ``os.environ``, whose modules may be frozen."""
    return name in ("<frozen os>", "<frozen _collections_abc>", __file__) or name.endswith(_ENVIRONMENT_FILES)


def _line_of_program(frame: FrameType | None) -> int | None:
    """Line of the program that caused an event; ``None`` when it was not the program."""
    while frame is not None:
        if frame.f_code.co_filename == PROGRAM_FILE:
            return frame.f_lineno
        frame = frame.f_back
    return None
