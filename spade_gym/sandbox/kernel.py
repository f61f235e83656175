"""Linux system calls that Python has no function for, through ctypes. Everything here fails loudly."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_SECUREBITS = 1, 4, 24, 28
_PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 38, 47, 4
_SECUREBITS_LOCKED = 0x2F
_SECCOMP_SET_MODE_FILTER = 1
_X86 = platform.machine() == "x86_64"
_NR_CAPSET = 126 if _X86 else 91
_NR_SECCOMP = 317 if _X86 else 277
_NR_CLOSE_RANGE = 436
_NR_LANDLOCK_CREATE, _NR_LANDLOCK_ADD, _NR_LANDLOCK_RESTRICT = 444, 445, 446

_LANDLOCK_READ_FILE, _LANDLOCK_READ_DIR = 1 << 2, 1 << 3
_LANDLOCK_FS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
_LANDLOCK_FS_NEWEST = (1 << 16) - 1


class _Ruleset(ctypes.Structure):
    _fields_ = [("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = [("access", ctypes.c_uint64), ("fd", ctypes.c_int32)]


class _FilterProgram(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]


class _CapHeader(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


_libc = ctypes.CDLL(None, use_errno=True)
_syscall = getattr(_libc, "syscall", None)
if _syscall is not None:
    _syscall.restype = ctypes.c_long


def _call(what: str, number: int, *arguments: object) -> int:
    if _syscall is None or not sys.platform.startswith("linux"):
        raise OSError(errno.ENOSYS, f"{what}: needs Linux")
    result = int(_syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def _prctl(what: str, option: int, *arguments: int) -> None:
    padded = [ctypes.c_ulong(value) for value in (*arguments, 0, 0, 0, 0)[:4]]
    if _libc.prctl(ctypes.c_int(option), *padded) < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def die_with_parent(signal_number: int) -> None:
    """Have the kernel send this process a signal when its parent dies."""
    _prctl("prctl(PDEATHSIG)", _PR_SET_PDEATHSIG, signal_number)


def not_dumpable() -> None:
    """Forbid core dumps, and ptrace and ``/proc/<pid>`` access by equals."""
    _prctl("prctl(DUMPABLE)", _PR_SET_DUMPABLE, 0)


def no_new_privileges() -> None:
    """Make set-user-id programs powerless; also the condition for Landlock and seccomp."""
    _prctl("prctl(NO_NEW_PRIVS)", _PR_SET_NO_NEW_PRIVS, 1)


def drop_capabilities() -> None:
    """Give up every capability, for good: effective, permitted, inheritable, ambient and bounding."""
    for capability in range(64):
        try:
            _prctl("prctl(CAPBSET_DROP)", _PR_CAPBSET_DROP, capability)
        except OSError:  # past the last capability, or not privileged: then no_new_privileges suffices
            break
    with contextlib.suppress(PermissionError):  # only a privileged process has anything to lock
        _prctl("prctl(SECUREBITS)", _PR_SET_SECUREBITS, _SECUREBITS_LOCKED)
    _prctl("prctl(CAP_AMBIENT)", _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    header = _CapHeader(0x20080522, 0)
    _call("capset", _NR_CAPSET, ctypes.byref(header), (ctypes.c_uint32 * 6)())


def close_descriptors_from(first: int) -> None:
    """Close every descriptor from ``first`` on (Linux 5.9 or newer)."""
    _call("close_range", _NR_CLOSE_RANGE, ctypes.c_long(first), ctypes.c_ulong(0xFFFFFFFF), ctypes.c_long(0))


class SeccompFilter:
    """A compiled filter, prepared once in the zygote and installed in each worker."""

    def __init__(self, instructions: bytes) -> None:
        self._buffer = ctypes.create_string_buffer(instructions, len(instructions))
        self._program = _FilterProgram(len(instructions) // 8, ctypes.addressof(self._buffer))

    def install(self) -> None:
        """Restrict this process, irrevocably."""
        _call(
            "seccomp", _NR_SECCOMP, ctypes.c_long(_SECCOMP_SET_MODE_FILTER), ctypes.c_long(0),
            ctypes.byref(self._program),
        )  # fmt: skip


def landlock_version() -> int:
    """Return the Landlock ABI of this kernel; 0 where there is none."""
    try:
        return _call("landlock", _NR_LANDLOCK_CREATE, None, ctypes.c_long(0), ctypes.c_long(1))
    except OSError:
        return 0


class LandlockRules:
    """A rule set: read some files, list some folders, nothing else; no TCP, no foreign signals or sockets."""

    def __init__(self, *, readable: Sequence[str], listable: Sequence[str]) -> None:
        """Prepare the rules.

        Args:
            readable: Files, or folders whose files may be read and whose entries may be listed.
            listable: Folders whose entries may be listed.

        Raises:
            OSError: Landlock is missing, or a path cannot be opened.
        """
        version = landlock_version()
        if version < 1:
            raise OSError(errno.ENOSYS, "landlock: not supported or not enabled by this kernel")
        rules = _Ruleset(
            _LANDLOCK_FS.get(version, _LANDLOCK_FS_NEWEST), 3 if version >= 4 else 0, 3 if version >= 6 else 0
        )
        size = 8 if version < 4 else 16 if version < 6 else 24
        self._fd = _call(
            "landlock_create_ruleset", _NR_LANDLOCK_CREATE, ctypes.byref(rules), ctypes.c_long(size), ctypes.c_long(0)
        )
        os.set_inheritable(self._fd, False)
        for path in readable:
            self._allow(path, _LANDLOCK_READ_FILE | (_LANDLOCK_READ_DIR if os.path.isdir(path) else 0))
        for path in listable:
            self._allow(path, _LANDLOCK_READ_DIR)

    def _allow(self, path: str, access: int) -> None:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            rule = _PathBeneath(access, descriptor)
            _call(
                f"landlock_add_rule {path}", _NR_LANDLOCK_ADD, ctypes.c_long(self._fd), ctypes.c_long(1),
                ctypes.byref(rule), ctypes.c_long(0),
            )  # fmt: skip
        finally:
            os.close(descriptor)

    def restrict(self) -> None:
        """Restrict this process, irrevocably."""
        _call("landlock_restrict_self", _NR_LANDLOCK_RESTRICT, ctypes.c_long(self._fd), ctypes.c_long(0))
