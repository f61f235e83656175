"""The zygote: a process that has everything imported, and forks jailed workers on demand.

It holds no secret: it starts with an empty environment and one descriptor, the control socket. A worker is a
fork that locks itself in *before* it reads anything about a program, in this order: die with the parent, limits,
no capabilities, not dumpable, no descriptors but its socket, Landlock, seccomp.
"""

from __future__ import annotations

import _sitebuiltins
import array
import builtins
import contextlib
import fcntl
import gc
import json
import os
import resource
import signal
import socket
import sys
import sysconfig
from typing import Any

from spade_gym.sandbox import kernel, preload
from spade_gym.sandbox.base import Isolation
from spade_gym.sandbox.harness import Harness
from spade_gym.sandbox.reach import Surroundings
from spade_gym.sandbox.seccomp import compile_filter
from spade_gym.sandbox.syscalls import this_machine
from spade_gym.sandbox.wire import FORKED, ORDER, READY
from spade_gym.sandbox.worker import serve
from spade_gym.sandbox.world import Patches, Stage

_process_number = os.getpid  # before ``world.py`` replaces it

#: The number of a worker's one descriptor beside the standard streams.
CONNECTION = 3
_SITE = ("site-packages", "dist-packages")
_TIME_ZONES = "/usr/share/zoneinfo"


class Jail:
    """What a worker puts on, prepared once.

    Args:
        level: L1 (limits only) or stronger; L3 differs from L2 by the namespaces around the zygote.
        packages: Folders of preloaded third-party packages, which a worker may read.

    Raises:
        OSError: A part of the jail is not available on this machine.
    """

    def __init__(self, level: Isolation, packages: list[str]) -> None:
        self._zygote = _process_number()
        self._locked = level >= Isolation.L2
        if not self._locked:
            return
        machine = this_machine()
        if machine is None:
            raise OSError(f"no system-call table for this processor ({os.uname().machine})")
        stdlib = os.path.realpath(sysconfig.get_paths()["stdlib"])
        with os.scandir(stdlib) as entries:
            readable = [entry.path for entry in entries if entry.name not in _SITE]
        dynamic = os.path.realpath(sysconfig.get_config_var("DESTSHARED") or stdlib)
        # A distribution may have links in there whose targets the namespace lacks (sitecustomize.py of Debian).
        readable = [path for path in [*readable, *packages, dynamic, _TIME_ZONES] if os.path.exists(path)]
        self._landlock = kernel.LandlockRules(readable=readable, listable=[stdlib])
        self._seccomp = kernel.SeccompFilter(compile_filter(machine))

    def enter(self, connection: int, cpu_seconds: int, memory_bytes: int) -> None:
        """Lock this process in; it keeps the standard streams (on /dev/null) and ``connection`` as number 3."""
        if sys.platform.startswith("linux"):
            kernel.die_with_parent(signal.SIGKILL)
            if os.getppid() != self._zygote:  # it died before that call, so no signal will come
                os._exit(1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        limits = (
            (resource.RLIMIT_CPU, cpu_seconds, cpu_seconds + 1),
            (resource.RLIMIT_AS, memory_bytes, memory_bytes),
            (resource.RLIMIT_NPROC, 0, 0),  # all that stops a fork bomb at L1; means nothing to uid 0
        )
        for which, soft, hard in limits:
            with contextlib.suppress(ValueError):  # never above an inherited hard limit
                resource.setrlimit(which, (soft, hard))
        if self._locked:
            kernel.drop_capabilities()
        if sys.platform.startswith("linux"):
            kernel.not_dumpable()
        if self._locked:
            self._landlock.restrict()
        os.dup2(connection, CONNECTION)
        try:
            kernel.close_descriptors_from(CONNECTION + 1)
        except OSError:
            if self._locked:
                raise
            os.closerange(CONNECTION + 1, 4096)
        if self._locked:
            self._seccomp.install()


def _inherited_limits() -> None:
    """Limits that all workers share; set here, inherited by every fork for nothing."""
    for name, value in (("CORE", 0), ("FSIZE", 0), ("NOFILE", 64), ("MSGQUEUE", 0), ("MEMLOCK", 0)):
        which = getattr(resource, f"RLIMIT_{name}", None)
        if which is not None:
            hard = resource.getrlimit(which)[1]
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(which, (value, value))


def _expendable() -> None:
    """Ask the kernel to kill workers first when memory runs out; needs /proc, which some containers hide."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def _high(descriptor: int) -> int:
    """Move a descriptor out of the way of the numbers that a worker uses."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 50)
    os.close(descriptor)
    return moved


def _without_fork_hooks(kind: str) -> list[str]:
    """Import everything while ``os.register_at_fork`` is off.

    Hooks of threading, logging and random would double the cost of a fork, and this process has one thread.
    """
    register = os.register_at_fork
    os.register_at_fork = lambda **_: None
    try:
        return preload.import_modules(kind)
    finally:
        os.register_at_fork = register


def _receive_order(control: socket.socket) -> tuple[bytes, int] | None:
    data, ancillary, _, _ = control.recvmsg(ORDER.size, socket.CMSG_SPACE(4))
    if not data:
        return None
    descriptors = array.array("i")
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(payload[: len(payload) - len(payload) % descriptors.itemsize])
    return data, descriptors[0]


def _become_worker(jail: Jail, harness: Harness, connection: int, order: bytes) -> None:
    """The forked child: lock in, say so, serve; never return."""
    status = 97
    try:
        _, cpu_seconds, memory_bytes = ORDER.unpack(order)
        try:
            jail.enter(connection, cpu_seconds, memory_bytes)
        except BaseException as error:
            os.write(CONNECTION, b"E" + repr(error).encode()[:500])
            return
        os.write(CONNECTION, READY)
        gc.enable()
        serve(CONNECTION, harness)
        status = 0
    finally:
        os._exit(status)


def _prepare(options: dict[str, Any]) -> tuple[Jail, Harness]:
    """Import, patch and lock down the zygote itself as far as its forks can inherit it."""
    packages = _without_fork_hooks(options["kind"])
    stage = Stage()
    Patches(stage).install()
    level = Isolation(options["level"])
    jail = Jail(level, packages)
    _inherited_limits()
    if sys.platform.startswith("linux"):
        kernel.not_dumpable()
    if level >= Isolation.L2:
        kernel.no_new_privileges()
    _as_in_any_script()
    os.environ.clear()
    _forget_how_it_started()
    stdlib = os.path.realpath(sysconfig.get_paths()["stdlib"])
    sys.path[:] = [path for path in sys.path if os.path.realpath(path).startswith(stdlib) and _SITE[0] not in path]
    return jail, Harness(stage, around=Surroundings())


def _as_in_any_script() -> None:
    """Define ``exit`` and ``quit``, which ``site`` would have."""
    for name in ("exit", "quit"):
        setattr(builtins, name, _sitebuiltins.Quitter(name, ""))


def _forget_how_it_started() -> None:
    """A program has no use for the paths of this machine."""
    sys.argv[:] = [""]
    sys.orig_argv[:] = []
    posix = sys.modules.get("posix")
    if posix is not None:
        posix.environ.clear()


def main(settings: str) -> None:
    """Prepare, report readiness on the control socket, then fork a worker for every order until it closes.

    Args:
        settings: JSON with ``level`` (0 to 3), ``kind`` (see ``preload.KINDS``) and ``control`` (a descriptor).
    """
    options = json.loads(settings)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the trainer, which then closes the socket
    control = socket.socket(fileno=_high(options["control"]))
    try:
        _expendable()
        jail, harness = _prepare(options)
    except BaseException as error:
        control.sendall(b"E" + f"{type(error).__name__}: {error}".encode()[:1000])
        os._exit(96)
    os.dup2(os.open(os.devnull, os.O_RDWR), 2)
    gc.collect()
    gc.disable()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps
    control.sendall(READY)
    while (order := _receive_order(control)) is not None:
        data, connection = order
        child = os.fork()
        if child == 0:
            _become_worker(jail, harness, connection, data)
        handle = os.pidfd_open(child) if hasattr(os, "pidfd_open") else None
        socket.send_fds(control, [FORKED.pack(ORDER.unpack(data)[0], child)], [handle] if handle is not None else [])
        if handle is not None:
            os.close(handle)
        os.close(connection)
    os._exit(0)
