"""The filter, interpreted: what a worker may ask of the kernel on each processor."""

import errno
import struct

import pytest

from spade_gym.sandbox.seccomp import compile_filter
from spade_gym.sandbox.syscalls import CONDITIONAL, MACHINES, Machine

ALLOW, KILL, DENY = 0x7FFF0000, 0x80000000, 0x00050000 | errno.EPERM
#: What would let a program out, with its numbers on both processors.
FORBIDDEN = {
    "socket": (41, 198), "connect": (42, 203), "sendmsg": (46, 211), "clone": (56, 220), "execve": (59, 221),
    "kill": (62, 129), "ptrace": (101, 117), "prctl": (157, 167), "setrlimit": (160, 164), "mount": (165, 40),
    "tkill": (200, 130), "tgkill": (234, 131), "unshare": (272, 97), "perf_event_open": (298, 241),
    "process_vm_readv": (310, 270), "seccomp": (317, 277), "memfd_create": (319, 279), "bpf": (321, 280),
    "execveat": (322, 281), "userfaultfd": (323, 282), "pkey_mprotect": (329, 288), "pidfd_send_signal": (424, 424),
    "io_uring_setup": (425, 425), "pidfd_open": (434, 434), "clone3": (435, 435), "pidfd_getfd": (438, 438),
    "landlock_create_ruleset": (444, 444), "unlinkat": (263, 35), "mkdirat": (258, 34), "fchmodat": (268, 53),
    "shmget": (29, 194), "keyctl": (250, 219), "setuid": (105, 146), "personality": (135, 92), "chroot": (161, 51),
    "pwrite64": (18, 68), "sendto": (44, 206), "rt_sigqueueinfo": (129, 138), "setns": (308, 268),
}  # fmt: skip


def run(machine: Machine, number: int, arguments: tuple[int, ...] = (), arch: int | None = None) -> int:
    """Interpret the filter as the kernel would; returns its verdict."""
    padded = [value & (1 << 64) - 1 for value in (*arguments, 0, 0, 0, 0, 0, 0)[:6]]
    data = struct.pack("<IIQ6Q", number, machine.audit_arch if arch is None else arch, 0, *padded)
    code = compile_filter(machine)
    program = [struct.unpack_from("<HBBI", code, at) for at in range(0, len(code), 8)]
    at = accumulator = 0
    while True:
        operation, if_true, if_false, value = program[at]
        at += 1
        if operation == 0x20:
            accumulator = struct.unpack_from("<I", data, value)[0]
        elif operation == 0x54:
            accumulator &= value
        elif operation == 0x05:
            at += value
        elif operation == 0x06:
            return int(value)
        else:
            test = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}
            at += if_true if test[operation] else if_false


@pytest.fixture(params=sorted(MACHINES))
def machine(request: pytest.FixtureRequest) -> Machine:
    return MACHINES[request.param]


def test_exactly_the_table_is_allowed(machine: Machine) -> None:
    allowed = {number for name, number in machine.calls.items() if name not in CONDITIONAL}
    conditional = {number for name, number in machine.calls.items() if name in CONDITIONAL}
    for number in [*range(700), 1 << 20, 0x3FFFFFFF]:
        if number not in conditional:
            assert run(machine, number) == (ALLOW if number in allowed else DENY), number


def test_the_filter_is_small_and_fits_the_kernel(machine: Machine) -> None:
    assert len(compile_filter(machine)) % 8 == 0
    assert len(compile_filter(machine)) // 8 < 4096


@pytest.mark.parametrize("name", FORBIDDEN)
def test_what_would_let_a_program_out_is_denied(name: str) -> None:
    for kind, number in zip(("x86_64", "aarch64"), FORBIDDEN[name], strict=True):
        assert number not in MACHINES[kind].calls.values()
        assert run(MACHINES[kind], number) == DENY


def test_tables_name_each_number_once(machine: Machine) -> None:
    assert len(set(machine.calls.values())) == len(machine.calls)
    assert set(CONDITIONAL) <= set(machine.calls)


def test_other_architectures_are_killed(machine: Machine) -> None:
    for arch in (0, 0x40000003, 0xC000003E ^ 1, 0x40000028):
        assert run(machine, machine.calls["read"], arch=arch) == KILL


def test_the_x32_numbers_are_killed() -> None:
    for number in (0x40000000, 0x40000027, 0x7FFFFFFF, 0xFFFFFFFF):
        assert run(MACHINES["x86_64"], number) == KILL
        assert run(MACHINES["aarch64"], number) == DENY


def test_memory_may_not_become_executable(machine: Machine) -> None:
    for name in ("mmap", "mprotect"):
        for protection in range(8):
            verdict = run(machine, machine.calls[name], (0, 4096, protection))
            assert verdict == (DENY if protection & 4 else ALLOW)
        assert run(machine, machine.calls[name], (0, 4096, 7 | 1 << 40)) == DENY


def test_limits_may_be_read_but_not_set(machine: Machine) -> None:
    number = machine.calls["prlimit64"]
    assert run(machine, number, (0, 7, 0, 0x7FFF0000)) == ALLOW
    for pointer in (1, 0x7FFF12345678, 1 << 32, 0xFFFFFFFF00000000):
        assert run(machine, number, (0, 7, pointer)) == DENY


def test_descriptors_may_be_copied_but_not_made_to_signal(machine: Machine) -> None:
    number = machine.calls["fcntl"]
    allowed = {0, 1, 2, 3, 1030}  # DUPFD, GETFD, SETFD, GETFL, DUPFD_CLOEXEC
    for command in [*range(40), *range(1020, 1050)]:
        assert run(machine, number, (3, command)) == (ALLOW if command in allowed else DENY), command


def test_devices_may_be_asked_little(machine: Machine) -> None:
    number = machine.calls["ioctl"]
    for command, verdict in ((0x5401, ALLOW), (0x541B, ALLOW), (0x5451, ALLOW), (0x5412, DENY), (0x5421, DENY)):
        assert run(machine, number, (0, command)) == verdict


def test_futexes_wait_and_wake_only(machine: Machine) -> None:
    number = machine.calls["futex"]
    for operation in range(16):
        for flags in (0, 128, 256, 384):
            expected = ALLOW if operation in (0, 1, 9, 10) else DENY
            assert run(machine, number, (0, operation | flags)) == expected
