"""System-call numbers and the allowlist of a worker, per processor.

A worker computes: it reads and writes its socket, maps memory, reads the standard library, looks at clocks.
It never starts a process or thread, opens a socket, traces or signals anybody, or maps executable memory.

Sources: ``arch/x86/entry/syscalls/syscall_64.tbl`` and ``include/uapi/asm-generic/unistd.h`` of Linux.
"""

from __future__ import annotations

import platform
from typing import NamedTuple

_X86_64 = dict(
    read=0, write=1, open=2, close=3, stat=4, fstat=5, lstat=6, poll=7, lseek=8, mmap=9, mprotect=10, munmap=11,
    brk=12, rt_sigaction=13, rt_sigprocmask=14, rt_sigreturn=15, ioctl=16, pread64=17, readv=19, access=21,
    select=23, sched_yield=24, mremap=25, madvise=28, dup=32, nanosleep=35, getitimer=36, alarm=37, setitimer=38,
    getpid=39, exit=60, uname=63, fcntl=72, getcwd=79, readlink=89, umask=95, gettimeofday=96, getrlimit=97,
    getrusage=98, sysinfo=99, times=100, getuid=102, getgid=104, geteuid=107, getegid=108, getppid=110,
    sigaltstack=131, gettid=186, time=201, futex=202, sched_getaffinity=204, getdents64=217, set_tid_address=218,
    restart_syscall=219, clock_gettime=228, clock_getres=229, clock_nanosleep=230, exit_group=231, openat=257,
    newfstatat=262, readlinkat=267, faccessat=269, pselect6=270, ppoll=271, set_robust_list=273, prlimit64=302,
    getrandom=318, statx=332, rseq=334, faccessat2=439,
)  # fmt: skip
_AARCH64 = dict(
    getcwd=17, dup=23, fcntl=25, ioctl=29, faccessat=48, openat=56, close=57, getdents64=61, lseek=62, read=63,
    write=64, readv=65, pread64=67, pselect6=72, ppoll=73, readlinkat=78, newfstatat=79, fstat=80, exit=93,
    exit_group=94, set_tid_address=96, futex=98, set_robust_list=99, nanosleep=101, getitimer=102, setitimer=103,
    clock_gettime=113, clock_getres=114, clock_nanosleep=115, sched_getaffinity=123, sched_yield=124,
    restart_syscall=128, sigaltstack=132, rt_sigaction=134, rt_sigprocmask=135, rt_sigreturn=139, times=153,
    uname=160, getrlimit=163, getrusage=165, umask=166, gettimeofday=169, getpid=172, getppid=173, getuid=174,
    geteuid=175, getgid=176, getegid=177, gettid=178, sysinfo=179, brk=214, munmap=215, mremap=216, mmap=222,
    mprotect=226, madvise=233, prlimit64=261, getrandom=278, statx=291, rseq=293, faccessat2=439,
)  # fmt: skip

#: Allowed with conditions on their arguments (see ``seccomp.py``); every other name in the tables is allowed as it is.
CONDITIONAL = ("mmap", "mprotect", "prlimit64", "ioctl", "fcntl", "futex")


class Machine(NamedTuple):
    """What a filter must know about a processor.

    Attributes:
        audit_arch: ``AUDIT_ARCH_*`` as seccomp reports it.
        calls: Name to number of every system call that may be allowed.
        x32: Whether numbers from 0x40000000 on (the x32 ABI) must be killed.
    """

    audit_arch: int
    calls: dict[str, int]
    x32: bool


MACHINES = {
    "x86_64": Machine(0xC000003E, _X86_64, True),
    "aarch64": Machine(0xC00000B7, _AARCH64, False),
}


def this_machine() -> Machine | None:
    """Return the table of this processor, or ``None`` where there is none (then L2 and L3 are unavailable)."""
    return MACHINES.get(platform.machine())
