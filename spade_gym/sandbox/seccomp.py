"""The seccomp filter of a worker: an allowlist, compiled to BPF as a binary search over call numbers.

A call outside the list fails with ``EPERM`` (so a program sees an exception, and the check can report it);
a foreign architecture or the x32 ABI kills the process.
"""

from __future__ import annotations

import errno
import struct

from spade_gym.sandbox.syscalls import Machine

_ALLOW = 0x7FFF0000
_DENY = 0x00050000 | errno.EPERM
_KILL = 0x80000000

_LOAD, _JEQ, _JGE, _JSET, _AND, _RETURN, _JUMP = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06, 0x05
_NUMBER, _ARCH = 0, 4
_PROT_EXEC = 4
_IOCTL = (0x5401, 0x541B, 0x5451)  # TCGETS, FIONREAD, FIOCLEX
_FCNTL = (0, 1, 2, 3, 1030)  # DUPFD, GETFD, SETFD, GETFL, DUPFD_CLOEXEC; no SETOWN, SETSIG, SETFL(O_ASYNC), locks
_FUTEX = (0, 1, 9, 10)  # WAIT, WAKE, WAIT_BITSET, WAKE_BITSET; the private and clock flags are masked off

_Block = list[bytes]


def _stmt(code: int, value: int) -> bytes:
    return struct.pack("<HBBI", code, 0, 0, value)


def _jump(code: int, value: int, if_true: int, if_false: int) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, value)


def _low(argument: int) -> int:
    return 16 + 8 * argument


def _argument_in(argument: int, values: tuple[int, ...], mask: int | None = None) -> _Block:
    block = [_stmt(_LOAD, _low(argument))]
    if mask is not None:
        block.append(_stmt(_AND, mask))
    for position, value in enumerate(values):
        block.append(_jump(_JEQ, value, len(values) - position, 0))
    return [*block, _stmt(_RETURN, _DENY), _stmt(_RETURN, _ALLOW)]


def _no_executable_memory() -> _Block:
    return [_stmt(_LOAD, _low(2)), _jump(_JSET, _PROT_EXEC, 0, 1), _stmt(_RETURN, _DENY), _stmt(_RETURN, _ALLOW)]


def _prlimit_reads_only() -> _Block:
    """Allow ``prlimit64`` when its new-limit pointer (both halves) is NULL."""
    return [
        _stmt(_LOAD, _low(2)), _jump(_JEQ, 0, 0, 3),
        _stmt(_LOAD, _low(2) + 4), _jump(_JEQ, 0, 0, 1),
        _stmt(_RETURN, _ALLOW), _stmt(_RETURN, _DENY),
    ]  # fmt: skip


def _conditions() -> dict[str, _Block]:
    return {
        "mmap": _no_executable_memory(),
        "mprotect": _no_executable_memory(),
        "prlimit64": _prlimit_reads_only(),
        "ioctl": _argument_in(1, _IOCTL),
        "fcntl": _argument_in(1, _FCNTL),
        "futex": _argument_in(1, _FUTEX, mask=0x7F),
    }


def _search(numbers: list[int], leaves: dict[int, _Block]) -> _Block:
    """A binary search tree over sorted call numbers; the number is in the accumulator."""
    if len(numbers) == 1:
        block = leaves[numbers[0]]
        return [_jump(_JEQ, numbers[0], 0, len(block)), *block, _stmt(_RETURN, _DENY)]
    middle = len(numbers) // 2
    below = _search(numbers[:middle], leaves)
    above = _search(numbers[middle:], leaves)
    if len(below) < 255:
        return [_jump(_JGE, numbers[middle], len(below), 0), *below, *above]
    return [_jump(_JGE, numbers[middle], 0, 1), _stmt(_JUMP, len(below)), *below, *above]


def compile_filter(machine: Machine) -> bytes:
    """Compile the worker's allowlist for one processor.

    Returns:
        BPF instructions, 8 bytes each, for ``SECCOMP_SET_MODE_FILTER``.
    """
    conditions = _conditions()
    leaves = {number: conditions.get(name, [_stmt(_RETURN, _ALLOW)]) for name, number in machine.calls.items()}
    program = [
        _stmt(_LOAD, _ARCH),
        _jump(_JEQ, machine.audit_arch, 1, 0),
        _stmt(_RETURN, _KILL),
        _stmt(_LOAD, _NUMBER),
    ]
    if machine.x32:
        program += [_jump(_JGE, 0x40000000, 0, 1), _stmt(_RETURN, _KILL)]
    return b"".join(program + _search(sorted(leaves), leaves))
